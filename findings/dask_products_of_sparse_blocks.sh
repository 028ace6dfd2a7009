#!/usr/bin/env bash
# dask 2026.8.0, SciPy 1.17.1: whether a product of two Dask arrays with sparse blocks multiplies elements or
# matrices follows the class of the blocks, not the function that was asked. Of blocks of csr_matrix,
# dask.array.multiply multiplies matrices. Of blocks of csr_array, which SciPy recommends in its place,
# dask.array.dot and tensordot multiply elements. Where the blocks are square, both come without a word, in the
# right shape. The operator @ works for neither.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet dask[array]==2026.8.0 numpy==2.4.6 scipy==1.17.1
cat > products.py <<'PYTHON'
import dask.array as da
import numpy as np
from scipy import sparse

dense = np.array([[1, 2, 0], [0, 1, 3], [4, 0, 1]])
products = {"elements": dense * dense, "matrices": dense @ dense}
calls = {
    "multiply": lambda x: da.multiply(x, x),
    "dot": lambda x: da.dot(x, x),
    "tensordot": lambda x: da.tensordot(x, x, axes=((1,), (0,))),
    "@": lambda x: x @ x,
}
for cls in (sparse.csr_matrix, sparse.csr_array):
    x = da.from_array(cls(dense), asarray=False, chunks=3)
    for name, call in calls.items():
        try:
            result = call(x).compute(scheduler="synchronous").toarray()
            said = next(words for words, product in products.items() if (result == product).all())
        except ValueError as error:
            said = type(error).__name__
        print(f"{cls.__name__} {name}: {said}")
PYTHON
said=$(venv/bin/python products.py)
echo "$said"
[ "$said" = "csr_matrix multiply: matrices
csr_matrix dot: matrices
csr_matrix tensordot: matrices
csr_matrix @: ValueError
csr_array multiply: elements
csr_array dot: elements
csr_array tensordot: elements
csr_array @: ValueError" ]

#!/usr/bin/env bash
# dask 2026.8.0: dask.array.outer(x, y) makes each block of x anew for every block of y, and each of y for every
# one of x, if these blocks are made by a blockwise operation: 72 calls for 6 blocks of each, in place of 12. The
# result is right. x[:, None] * y[None, :] makes each block once.
#
# Dask fuses what makes the inputs into the tasks of the outer product. It does not where the result of a
# blockwise function lacks an index of its inputs, as in matrix products, or where a slice stands between.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet dask[array]==2026.8.0 numpy==2.4.6
cat > outer.py <<'PYTHON'
import dask.array as da
import numpy as np

calls = 0


def make(block: np.ndarray) -> np.ndarray:
    global calls
    calls += bool(block.size)  # Dask also calls it with nothing, to see what it returns
    return block


def calls_of(product) -> int:
    global calls
    x, y = (da.from_array(np.arange(30.0) + k, chunks=5) for k in (0, 1))
    x, y = (da.blockwise(make, "i", a, "i", dtype=float, meta=np.empty(0)) for a in (x, y))
    lazy = product(x, y)
    calls = 0
    result = lazy.compute(scheduler="synchronous")
    assert np.array_equal(result, np.outer(np.arange(30.0), np.arange(30.0) + 1))
    return calls


print("outer(x, y):", calls_of(da.outer), "calls")
print("x[:, None] * y[None, :]:", calls_of(lambda x, y: x[:, None] * y[None, :]), "calls")
PYTHON
said=$(venv/bin/python outer.py)
echo "$said"
[ "$said" = "outer(x, y): 72 calls
x[:, None] * y[None, :]: 12 calls" ]

#!/usr/bin/env bash
# SciPy 1.15.0: the sum of all values of a sparse matrix allocates a dense vector with a number for each of its
# columns. A matrix of one value and 2^40 columns takes 8 TiB to sum; SciPy 1.17.1 sums the values.
#
# Hashed features, such as unfolded fingerprints of 2^32 columns, are where it is met: matrix.data.sum() is the
# same number in every version.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > sum.py <<'PYTHON'
import numpy as np
from scipy import sparse

matrix = sparse.csr_array((np.array([3.0]), np.array([7]), np.array([0, 1, 1])), shape=(2, 2**40))
assert matrix.data.sum() == 3.0
try:
    print(matrix.sum())
except MemoryError as error:
    print("MemoryError:", error)
PYTHON

sum_of() {  # the version of SciPy
    python3 -m venv "venv-$1"
    "venv-$1/bin/pip" install --quiet "scipy==$1" "numpy==2.2.6"
    "venv-$1/bin/python" sum.py
}

old=$(sum_of 1.15.0)
new=$(sum_of 1.17.1)
echo "SciPy 1.15.0: $old"
echo "SciPy 1.17.1: $new"
[[ $old == "MemoryError: Unable to allocate 8.00 TiB"* ]] && [ "$new" = 3.0 ]

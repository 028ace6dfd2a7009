#!/usr/bin/env bash
# sparse 0.19.3: COO.sum() of small unsigned integers raises OverflowError where the axis is longer than their
# type can count, however few entries there are: uint16 with 65,536 columns, uint8 with 256. GCXS sums the same
# array, and so does NumPy. Fingerprints, wide and of small counts, are such arrays.
#
# COO makes a number of the array's own type of the length of the axis, to add what the zeros contribute.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet sparse==0.19.3
cat > sums.py <<'PYTHON'
import numpy as np
import sparse


def said(function) -> str:
    try:
        return str(np.asarray(function()).tolist())
    except OverflowError as error:
        return f"OverflowError: {error}"


for dtype, columns in ((np.uint8, 256), (np.uint8, 250), (np.uint16, 66_000), (np.uint16, 65_000)):
    dense = np.zeros((2, columns), dtype)
    dense[:, :3] = [[1, 2, 3], [4, 5, 6]]
    coo, gcxs = sparse.COO.from_numpy(dense), sparse.GCXS.from_numpy(dense)
    print(f"{np.dtype(dtype)}, {columns:,} columns, 6 entries")
    sums = [said(lambda: x.sum(axis=1).todense()) for x in (coo, gcxs)]
    print("  COO.sum(axis=1) ", sums[0])
    print("  GCXS.sum(axis=1)", sums[1])
    assert sums[1] == "[6, 15]" == said(lambda: dense.sum(axis=1))
    assert sums[0].startswith("OverflowError") == (columns > np.iinfo(dtype).max), sums[0]
PYTHON
venv/bin/python sums.py

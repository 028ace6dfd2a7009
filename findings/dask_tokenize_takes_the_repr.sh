#!/usr/bin/env bash
# dask 2026.8.0: what __dask_tokenize__ returns is named by its repr, not by its content, unless the method passes
# it through dask.base.normalize_token. So two objects that return large NumPy arrays, whose repr has an ellipsis,
# have one name, and so have two that return objects of equal repr, however these define __dask_tokenize__
# themselves. Results of one are then taken for those of the other, without a word.
#
# Arrays and objects in a plain list or tuple are named by their content, so that a tuple looks safe to return.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet dask[array]==2026.8.0 numpy==2.4.6
cat > names.py <<'PYTHON'
import dask
import dask.array as da
import numpy as np
from dask.base import normalize_token, tokenize


class Weights:
    def __init__(self, w):
        self.w = w

    def __dask_tokenize__(self):
        return "Weights", self.w


class Normalized(Weights):
    def __dask_tokenize__(self):
        return normalize_token(("Normalized", self.w))


def total(weights):
    return float(weights.w.sum())


def weighted(block, weights):
    return block * weights.w


one = np.ones(10_000)
other = one.copy()
other[5_000] = 7.0
x = da.ones(10_000, chunks=10_000)
print("arrays alike:", tokenize(one) == tokenize(other), tokenize((one,)) == tokenize((other,)))
for cls in (Weights, Normalized):
    sums = dask.compute(*(dask.delayed(total, pure=True)(cls(w)) for w in (one, other)))
    a, b = (da.map_blocks(weighted, x, weights=cls(w), dtype=float) for w in (one, other))
    print(f"{cls.__name__}: sums {sums}, largest difference {float((b - a).max().compute())}")
PYTHON
said=$(venv/bin/python names.py)
echo "$said"
[ "$said" = "arrays alike: False False
Weights: sums (10000.0, 10000.0), largest difference 0.0
Normalized: sums (10000.0, 10006.0), largest difference 6.0" ]

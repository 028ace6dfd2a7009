"""Bounds of standard deviations save most of them, and never change a hit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

from daskrf import ExactGP, FingerprintSpec
from daskrf.kernels import Gaussian, TanimotoMinMax
from daskrf.molecules.structures import KnownStructures
from daskrf.screens.space import stdbounds
from daskrf.screens.space.productpool import Pool
from daskrf.screens.space.productscores import Scored
from daskrf.spaces import CutSpace, cut, read_space
from tests.spaces.helpers import SPACES, write_space

Integers = npt.NDArray[np.int64]


@pytest.mark.parametrize("kernel", [TanimotoMinMax(), Gaussian(3.0)])
@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_fewer_labels_never_make_a_process_surer(
    kernel: Any, limits: bool, sign: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdbounds, "N_LABELS", 15)
    random = np.random.default_rng(3)
    X = sparse.csr_matrix(random.poisson(0.4, (70, 30)))
    y = X @ random.normal(size=30) + random.normal(size=70)
    side = np.where(random.random(70) < 0.4, 1, 0) if limits else None
    process = ExactGP(kernel, noise_variance=0.3, signal_variance=2.0).fit(X, y, side=side)
    some = stdbounds.of_best_labels(process, sign)
    measured = np.ones(70, bool) if side is None else side == 0
    assert sorted(sign * some.y_train_) == sorted(np.sort(sign * y[measured])[-15:])
    rows = sparse.vstack([X, sparse.csr_matrix(random.poisson(2.0, (50, 30))), sparse.csr_matrix((1, 30))])
    _, std = process.predict(rows, return_std=True, of="f")
    _, bound = some.predict(rows, return_std=True, of="f")
    assert (bound >= std - 1e-9).all()
    assert bound.mean() < 1.3 * std.mean() + 0.3  # and say something
    # By dense algebra: k(x, x) - k(x, Z) (k(Z, Z) + noise)^-1 k(Z, x).
    Z = some.X_train_
    cross, inner = 2.0 * kernel(rows, Z), 2.0 * kernel(Z, Z) + 0.3 * np.eye(15)
    naive = 2.0 * kernel.diag(rows) - np.einsum("ij,ji->i", cross, np.linalg.solve(inner, cross.T))
    np.testing.assert_allclose(bound**2, naive, atol=1e-8)


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> CutSpace:
    path = tmp_path_factory.mktemp("bounds") / "space"
    write_space(path, {"amide": SPACES["amide"]})
    return cut(read_space(path), FingerprintSpec("morgan"))


class Scores:
    """Scores with ties and equal molecules, and upper bounds of them; counts the exact ones asked for."""

    def __init__(self, seed: int, n: int) -> None:
        random = np.random.default_rng(seed)
        self.key = random.integers(0, max(1, n // 2), n)  # pairs of equal fingerprints
        self.score = random.integers(-4, 5, n)[self.key].astype(float)
        loose = random.choice([0.0, 0.5, 100.0], n)[self.key]
        self.high = self.score + loose
        self.n_exact = 0

    def _scored(self, numbers: Integers, score: npt.NDArray[np.float64], std: float) -> Scored:
        columns = {"score": score[numbers], "key": self.key[numbers], "std": np.full(len(numbers), std)}
        return Scored([f"m{key}" for key in self.key[numbers]], columns)

    def exact(self, numbers: Integers) -> Scored:
        self.n_exact += len(numbers)
        return self._scored(numbers, self.score, 1.0)

    def bounds(self, numbers: Integers) -> Scored:
        return self._scored(numbers, self.high, np.nan)


def test_a_pool_with_bounds_has_the_hits_of_one_without(space: CutSpace) -> None:
    n, asked = sum(space.sizes), 0
    for seed, per_block, k in itertools.product(range(12), (None, 2), (1, 3, 10)):
        scores = Scores(seed, n)
        excluded = KnownStructures([f"m{seed}", "m3"])
        plain = Pool(space, scores.exact, per_block=per_block, excluded=excluded)
        pool = Pool(space, scores.exact, scores.bounds, per_block, excluded)
        parts = np.array_split(np.random.default_rng(seed).permutation(n), 3)
        for part in parts[:2]:
            plain.add(part)
            pool.add(part)
            scores.n_exact = 0
            hits, every = pool.hits(k), plain.hits()
            asked += scores.n_exact
            assert hits.row[:k].tolist() == every.row[:k].tolist()
            assert hits.columns["score"][:k].tolist() == every.columns["score"][:k].tolist()
            assert not np.isnan(hits.columns["std"][:k]).any()
            assert pool.last_score(k) == plain.last_score(k)
        last = pool.last_score(k)
        np.testing.assert_array_equal(
            pool.scores_above(parts[2], last) > last, plain.scores_above(parts[2], last) > last
        )
        assert pool.hits().row.tolist() == plain.hits().row.tolist()  # all
    assert asked > 0
    empty = Pool(space, scores.exact, scores.bounds)
    assert (len(empty.hits()), empty.last_score(1)) == (0, -np.inf)

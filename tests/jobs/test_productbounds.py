"""Bounds of standard deviations save most of them, and never change a hit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

from daskrf import ExactGP, FingerprintSpec
from daskrf.acquisition import acquisition_for
from daskrf.kernels import Gaussian, TanimotoMinMax
from daskrf.molecules.structures import KnownStructures
from daskrf.screens.space import productpool, stdbounds
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
    """Scores with ties and equal molecules, and two upper bounds of them; counts the exact ones asked for."""

    def __init__(self, seed: int, n: int) -> None:
        random = np.random.default_rng(seed)
        self.key = random.integers(0, max(1, n // 2), n)  # pairs of equal fingerprints
        self.score = random.integers(-4, 5, n)[self.key].astype(float)
        self.high = self.score + random.choice([0.0, 0.5, 100.0], n)[self.key]
        self.higher = self.high + random.choice([0.0, 1.0, 100.0], n)[self.key]
        self.n_exact = 0
        self.steps = self.loose, self.bounds, self.exact

    def _scored(self, numbers: Integers, score: npt.NDArray[np.float64], std: float) -> Scored:
        columns = {"score": score[numbers], "key": self.key[numbers], "std": np.full(len(numbers), std)}
        return Scored([f"m{key}" for key in self.key[numbers]], columns)

    def exact(self, numbers: Integers) -> Scored:
        self.n_exact += len(numbers)
        return self._scored(numbers, self.score, 1.0)

    def bounds(self, numbers: Integers) -> Scored:
        return self._scored(numbers, self.high, np.nan)

    def loose(self, numbers: Integers) -> Scored:
        return self._scored(numbers, self.higher, np.nan)


@pytest.mark.parametrize("n_bounds", [1, 2])
def test_a_pool_with_bounds_has_the_hits_of_one_without(space: CutSpace, n_bounds: int) -> None:
    n, asked = sum(space.sizes), 0
    for seed, per_block, k in itertools.product(range(12), (None, 2), (1, 3, 10)):
        scores = Scores(seed, n)
        excluded = KnownStructures([f"m{seed}", "m3"])
        plain = Pool(space, [scores.exact], per_block=per_block, excluded=excluded)
        pool = Pool(space, scores.steps[2 - n_bounds :], per_block, excluded)
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
    empty = Pool(space, scores.steps)
    assert (len(empty.hits()), empty.last_score(1)) == (0, -np.inf)


def test_a_pool_tightens_few_bounds(space: CutSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(productpool, "_FIRST_AHEAD", 1)
    monkeypatch.setattr(productpool, "_AHEAD", 1)
    n, asked = sum(space.sizes), {"bounds": 0, "exact": 0}

    def scored(high: float, name: str | None = None) -> Callable[[Integers], Scored]:
        def of(numbers: Integers) -> Scored:
            if name:
                asked[name] += len(numbers)
            score = -numbers.astype(float) + high
            std = np.full(len(numbers), np.nan if name != "exact" else 1.0)
            return Scored([f"m{i}" for i in numbers], {"score": score, "key": numbers, "std": std})

        return of

    pool = Pool(space, [scored(9.5), scored(2.5, "bounds"), scored(0.0, "exact")])
    pool.add(np.arange(n))
    assert pool.hits(2).row[:2].tolist() == [0, 1]
    # Of the 4 looked at, numbers 0 to 3, the last scores -3: bounds by 9.5 reach it up to 12, by 2.5 up to 5.
    assert asked == {"bounds": 13, "exact": 6}


@pytest.mark.parametrize(
    ("n", "solver", "rule", "known"),
    [
        (stdbounds.LEAST_LABELS - 1, "cholesky", "ucb", ()),
        (stdbounds.LEAST_LABELS, "cholesky", "ucb", (0,)),
        (2 * stdbounds.N_LABELS + 1, "cholesky", "ucb", (0, stdbounds.N_LABELS)),
        (2 * stdbounds.N_LABELS + 1, "cholesky", "greedy", ()),
        (stdbounds.LEAST_LABELS, "cg", "ucb", ()),
    ],
)
def test_bounds_know_no_labels_then_some(n: int, solver: str, rule: str, known: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    X = random.poisson(1.0, (n, 8))
    process = ExactGP(TanimotoMinMax(), noise_variance=0.3, signal_variance=2.0, solver=solver)
    process.fit(X, random.normal(size=n))
    model = SimpleNamespace(gp=process, path="m", metadata={"spec_hash": "1"})
    ucb = acquisition_for(rule, maximize=True)
    assert stdbounds.labels_of_bounds(model, 0, ucb) == known  # type: ignore[arg-type]
    rows = sparse.csr_matrix(random.poisson(1.0, (20, 8)))
    _, std = process.predict(rows, return_std=True, of="f")
    bounds = [stdbounds.std_bounds(model, 0, ucb, rows, k) for k in known]  # type: ignore[arg-type]
    for loose, tight in itertools.pairwise([*bounds, std]):
        assert (loose >= tight).all()
    if known:
        np.testing.assert_allclose(bounds[0], np.sqrt(2.0), rtol=1e-5)

"""The residual that features leave out of a process: its covariance, and its samples as functions of a row.

Features that project their kernel (`FeatureMap.projected_kernel`) describe f except for a residual. Labels
carry no information about it: its posterior is its prior. For landmarks Z the residual of a prior sample g is

    g(x) - k(x, Z) K_ZZ^-1 g(Z),    of covariance k(x, x') - phi(x) . phi(x')

with the whitened features phi. The second term is a function of the features. So a sample consists of g, made
of random features of k, and a change of the weights (Matheron's rule; Wilson et al. 2020). Features that are
sketches, or a series about a centre, have no such landmarks. Their residual is a process with the same
kernel, scaled at each row to the variance that the features lack: it is 0 where they lack nothing, and the
prior where they vanish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_csr
from daskrf.features.featuremap import FeatureMap
from daskrf.features.foldedfeatures import FoldedFeatures
from daskrf.features.sparserows import SampleMap
from daskrf.gp.processes.posterior import standard_normal
from daskrf.gp.processes.priordraws import Draws, has_draws, prior_draws
from daskrf.kernels.kernel import Kernel

RESIDUAL_FEATURES = 4096
"""Number of random features in a sample of a residual, computed for each row besides those of the map."""

Array = npt.NDArray[np.float64]
Project = Callable[[Array], Array]


@dataclass(frozen=True)
class ResidualDraws:
    """Samples of a residual at rows, without the part that `Residual.correction` adds to feature weights."""

    residual: Residual
    prior: Draws
    deviation: float

    def __call__(self, X: MatrixLike, left: Array) -> Array:
        """Return their values, float64 of shape (m, n_draws), at rows X that lack `left` of k(x, x)."""
        values = self.deviation * self.prior(self.residual.rows(X)).astype(np.float64)
        if self.residual.project is None:
            values *= np.sqrt(left / self.residual.diag(X))[:, None]
        return values


class Residual:
    """The residual of a process, in units of its variance.

    Parameters
    ----------
    feature_map : FeatureMap
        A fitted map with a `projected_kernel`.
    project : callable, optional
        Takes values of a function at the landmarks of the map, shape (K, n), and returns the feature weights
        that give the same values there. None for features that are not a projection on landmarks.
    """

    def __init__(self, feature_map: FeatureMap, project: Project | None) -> None:
        folded = feature_map if isinstance(feature_map, FoldedFeatures) else None
        inner = feature_map if folded is None else folded.folded_map
        kernel = inner.projected_kernel
        assert kernel is not None
        self.kernel: Kernel = kernel
        self.project = project
        self._folded = folded
        self._sample_rows = (
            getattr(inner, f"{inner.kept_rows}_", None) if isinstance(inner, SampleMap) else None
        )

    def rows(self, X: MatrixLike) -> MatrixLike:
        """Return rows as the kernel takes them: folded, if the map folds them."""
        return X if self._folded is None else self._folded.folded(X)

    def diag(self, X: MatrixLike) -> Array:
        """Return k(x, x) of each row, above 0."""
        return np.maximum(self.kernel.diag(self.rows(X)), np.finfo(np.float64).tiny)

    def covariance(self, X: MatrixLike, white: npt.NDArray[np.floating], left: Array) -> Array:
        """Return the covariance of the residual at rows with whitened features, shape (m, m)."""
        shared = self.kernel(self.rows(X))
        if self.project is not None:
            shared -= white @ white.T
        else:
            size = np.sqrt(left / self.diag(X))
            shared *= size[:, None] * size
        shared[np.diag_indices(len(left))] = left
        return shared

    @property
    def has_functions(self) -> bool:
        """Whether its samples are available as functions, usually by random features of the kernel."""
        return has_draws(self.kernel)

    def draws(self, n: int, seed: int, target: int, deviation: float) -> ResidualDraws:
        """Return n samples; sample i depends on the seed and the target alone.

        Raises
        ------
        InputError
            If the kernel has no random features.
        """
        prior_seed = seeds.key(seed, f"gp/residual/{target}") >> 33
        return ResidualDraws(
            self, prior_draws(self.kernel, self._sample_rows, n, RESIDUAL_FEATURES, prior_seed), deviation
        )

    def correction(self, draws: ResidualDraws) -> Array | float:
        """Return the weights that samples subtract from those of features, shape (M, n_draws), or 0."""
        if self.project is None:
            return 0.0
        values = draws.prior(self._sample_rows).astype(np.float64)
        return draws.deviation * self.project(values)

    def joint_draws(self, X: MatrixLike, covariance: Array, n: int, seed: int, target: int) -> Array:
        """Return n joint samples at rows X of this covariance, shape (m, n), for kernels without features."""
        rows = as_csr(X)
        indices: dict[bytes, int] = {}
        place = np.array(
            [indices.setdefault(_bytes_of(rows[i]), len(indices)) for i in range(rows.shape[0])], int
        )
        first = np.unique(place, return_index=True)[1]
        values, vectors = np.linalg.eigh(covariance[np.ix_(first, first)])
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(root @ standard_normal(seed, f"gp/residual/{target}", len(root), n))[place]


def _bytes_of(row: sp.csr_matrix) -> bytes:
    return row.indices.astype(np.int64).tobytes() + row.data.astype(np.float64).tobytes()

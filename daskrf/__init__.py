"""Gaussian processes with random features over ultra-large molecular libraries, on Dask.

Every command of the command line is a function of the same name here. Names are imported on first
use, so that ``import daskrf`` costs nothing.

Examples
--------
>>> import daskrf
>>> daskrf.TanimotoMinMaxFeatures(n_components=256).n_components
256
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daskrf.commands.featurize import featurize
    from daskrf.commands.fingerprint import fingerprint
    from daskrf.commands.fit import fit
    from daskrf.commands.maintenance import status, verify
    from daskrf.commands.plan import plan
    from daskrf.commands.predict import predict
    from daskrf.commands.screen import screen
    from daskrf.demo import quickstart
    from daskrf.errors import DaskrfError, InputError, MemoryLimitError, StoreError, WorkerError
    from daskrf.features.composition import CompositionFeatures
    from daskrf.features.compositional import CompositionalTanimotoFeatures
    from daskrf.features.dotproduct import TanimotoDotProductFeatures
    from daskrf.features.fastfood import FastfoodFeatures
    from daskrf.features.fourier import RandomFourierFeatures
    from daskrf.features.gaussianmaclaurin import GaussianMaclaurinFeatures
    from daskrf.features.harmonics import FastfoodDotProductFeatures
    from daskrf.features.landmarks import LandmarkFeatures
    from daskrf.features.localgaussian import LocalGaussianFeatures
    from daskrf.features.maclaurin import RandomMaclaurinFeatures
    from daskrf.features.minmax import TanimotoMinMaxFeatures
    from daskrf.features.nystrom import NystromFeatures
    from daskrf.features.polynomial import PolynomialSketch
    from daskrf.features.scissors import SCISSORS
    from daskrf.gp.exact import ExactGP
    from daskrf.gp.local import LocalGaussianGP
    from daskrf.gp.process import RandomFeatureGP
    from daskrf.gp.sparse import SparseGP
    from daskrf.gp.statistics import SufficientStatistics
    from daskrf.jobs.batch import jobqueue_cluster
    from daskrf.jobs.clusters import connect, local_cluster
    from daskrf.jobs.lazy import gram, kernel_matrix
    from daskrf.jobs.preparing import fit_map
    from daskrf.jobs.shards import Shard
    from daskrf.kernels.composition import Composition
    from daskrf.kernels.compositional import CompositionalTanimoto
    from daskrf.kernels.dotproduct import TanimotoDotProduct
    from daskrf.kernels.maclaurin import DotProduct, Exponential, Polynomial
    from daskrf.kernels.radial import Gaussian, Matern
    from daskrf.kernels.tanimoto import Intersection, TanimotoMinMax
    from daskrf.kernels.truncated import TruncatedGaussian
    from daskrf.molecules.fingerprints import FingerprintSpec
    from daskrf.molecules.formats import TableFormat
    from daskrf.report.maps import maps

__version__ = "0.2.0.dev0"

__all__ = [
    "SCISSORS",
    "Composition",
    "CompositionFeatures",
    "CompositionalTanimoto",
    "CompositionalTanimotoFeatures",
    "DaskrfError",
    "DotProduct",
    "ExactGP",
    "Exponential",
    "FastfoodDotProductFeatures",
    "FastfoodFeatures",
    "FingerprintSpec",
    "Gaussian",
    "GaussianMaclaurinFeatures",
    "InputError",
    "Intersection",
    "LandmarkFeatures",
    "LocalGaussianFeatures",
    "LocalGaussianGP",
    "Matern",
    "MemoryLimitError",
    "NystromFeatures",
    "Polynomial",
    "PolynomialSketch",
    "RandomFeatureGP",
    "RandomFourierFeatures",
    "RandomMaclaurinFeatures",
    "Shard",
    "SparseGP",
    "StoreError",
    "SufficientStatistics",
    "TableFormat",
    "TanimotoDotProduct",
    "TanimotoDotProductFeatures",
    "TanimotoMinMax",
    "TanimotoMinMaxFeatures",
    "TruncatedGaussian",
    "WorkerError",
    "connect",
    "featurize",
    "fingerprint",
    "fit",
    "fit_map",
    "gram",
    "jobqueue_cluster",
    "kernel_matrix",
    "local_cluster",
    "maps",
    "plan",
    "predict",
    "quickstart",
    "screen",
    "status",
    "verify",
]

_HOME = {
    "quickstart": "demo",
    "TanimotoMinMaxFeatures": "features.minmax",
    "CompositionalTanimotoFeatures": "features.compositional",
    "TanimotoDotProductFeatures": "features.dotproduct",
    "LandmarkFeatures": "features.landmarks",
    "RandomFourierFeatures": "features.fourier",
    "FastfoodDotProductFeatures": "features.harmonics",
    "FastfoodFeatures": "features.fastfood",
    "RandomMaclaurinFeatures": "features.maclaurin",
    "NystromFeatures": "features.nystrom",
    "PolynomialSketch": "features.polynomial",
    "SCISSORS": "features.scissors",
    "GaussianMaclaurinFeatures": "features.gaussianmaclaurin",
    "LocalGaussianFeatures": "features.localgaussian",
    "CompositionFeatures": "features.composition",
    "Gaussian": "kernels.radial",
    "Matern": "kernels.radial",
    "Intersection": "kernels.tanimoto",
    "TanimotoMinMax": "kernels.tanimoto",
    "TanimotoDotProduct": "kernels.dotproduct",
    "CompositionalTanimoto": "kernels.compositional",
    "Composition": "kernels.composition",
    "TruncatedGaussian": "kernels.truncated",
    **dict.fromkeys(["DotProduct", "Exponential", "Polynomial"], "kernels.maclaurin"),
    "RandomFeatureGP": "gp.process",
    "LocalGaussianGP": "gp.local",
    "ExactGP": "gp.exact",
    "SparseGP": "gp.sparse",
    "SufficientStatistics": "gp.statistics",
    "FingerprintSpec": "molecules.fingerprints",
    "TableFormat": "molecules.formats",
    **dict.fromkeys(["DaskrfError", "InputError", "MemoryLimitError", "StoreError", "WorkerError"], "errors"),
    **{name: f"commands.{name}" for name in ("featurize", "fingerprint", "fit", "plan", "predict", "screen")},
    **dict.fromkeys(["status", "verify"], "commands.maintenance"),
    **dict.fromkeys(["connect", "local_cluster"], "jobs.clusters"),
    "jobqueue_cluster": "jobs.batch",
    **dict.fromkeys(["gram", "kernel_matrix"], "jobs.lazy"),
    "fit_map": "jobs.preparing",
    "Shard": "jobs.shards",
    "maps": "report.maps",
}
_SUBPACKAGES = (
    "features",
    "gp",
    "kernels",
    "molecules",
    "storage",
    "jobs",
    "commands",
    "screening",
    "seeds",
    "errors",
)


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"daskrf.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'daskrf' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"daskrf.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBPACKAGES})

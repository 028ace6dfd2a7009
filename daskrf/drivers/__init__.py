"""Drivers: the pipeline's stages on Dask, or in this process; the only place that imports Dask."""

from daskrf.drivers.cluster import connect, local_cluster
from daskrf.drivers.featurizing import FeaturizeReport, featurize
from daskrf.drivers.fingerprinting import FingerprintReport, fingerprint
from daskrf.drivers.fitting import FitReport, fit
from daskrf.drivers.jobqueue import jobqueue_cluster
from daskrf.drivers.lazy import gram, kernel_matrix
from daskrf.drivers.maintenance import VerifyReport, status, verify
from daskrf.drivers.planning import PlanReport, plan
from daskrf.drivers.predicting import PredictReport, predict
from daskrf.drivers.preparing import fit_map
from daskrf.drivers.progress import Progress
from daskrf.drivers.screening import ScreenReport, screen
from daskrf.drivers.shards import Shard, ShardReport

__all__ = [
    "FeaturizeReport",
    "FingerprintReport",
    "FitReport",
    "PlanReport",
    "PredictReport",
    "Progress",
    "ScreenReport",
    "Shard",
    "ShardReport",
    "VerifyReport",
    "connect",
    "featurize",
    "fingerprint",
    "fit",
    "fit_map",
    "gram",
    "jobqueue_cluster",
    "kernel_matrix",
    "local_cluster",
    "plan",
    "predict",
    "screen",
    "status",
    "verify",
]

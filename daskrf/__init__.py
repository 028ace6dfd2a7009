"""Gaussian processes with random features over ultra-large molecular libraries, on Dask.

Every command of the command line is a function of the same name here, found by its file in
`daskrf.commands`; those below are for type checkers. Names are imported on first
use, so that ``import daskrf`` costs nothing.

Examples
--------
>>> import daskrf
>>> daskrf.TanimotoMinMaxFeatures(n_components=256).n_components
256
"""

from typing import TYPE_CHECKING

from daskrf.exports import lazy

if TYPE_CHECKING:
    from daskrf.commands.add import add as add
    from daskrf.commands.check_space import check_space as check_space
    from daskrf.commands.evaluate import evaluate as evaluate
    from daskrf.commands.explain import explain as explain
    from daskrf.commands.featurize import featurize as featurize
    from daskrf.commands.fingerprint import fingerprint as fingerprint
    from daskrf.commands.fit import fit as fit
    from daskrf.commands.found import found as found
    from daskrf.commands.maps import maps as maps
    from daskrf.commands.page import page as page
    from daskrf.commands.plan import plan as plan
    from daskrf.commands.predict import predict as predict
    from daskrf.commands.quickstart import quickstart as quickstart
    from daskrf.commands.sample import sample as sample
    from daskrf.commands.screen import screen as screen
    from daskrf.commands.status import status as status
    from daskrf.commands.suggest import suggest as suggest
    from daskrf.commands.verify import verify as verify
    from daskrf.errors import DaskrfError as DaskrfError
    from daskrf.errors import InputError as InputError
    from daskrf.errors import MemoryLimitError as MemoryLimitError
    from daskrf.errors import StoreError as StoreError
    from daskrf.errors import WorkerError as WorkerError
    from daskrf.features import *  # noqa: F403
    from daskrf.fitting.lazy import gram as gram
    from daskrf.fitting.lazy import kernel_matrix as kernel_matrix
    from daskrf.fitting.learner import fit_map as fit_map
    from daskrf.gp.processes.exact import ExactGP as ExactGP
    from daskrf.gp.processes.local import LocalGaussianGP as LocalGaussianGP
    from daskrf.gp.processes.process import RandomFeatureGP as RandomFeatureGP
    from daskrf.gp.processes.sparse import SparseGP as SparseGP
    from daskrf.gp.sums.statistics import SufficientStatistics as SufficientStatistics
    from daskrf.jobs.shards import Shard as Shard
    from daskrf.kernels import *  # noqa: F403
    from daskrf.models.views import load as load
    from daskrf.models.views import open_features as open_features
    from daskrf.models.views import open_library as open_library
    from daskrf.molecules.counts.fingerprints import FingerprintSpec as FingerprintSpec
    from daskrf.tables.formats import TableFormat as TableFormat
    from daskrf.workers.batch import jobqueue_cluster as jobqueue_cluster
    from daskrf.workers.clusters import connect as connect
    from daskrf.workers.clusters import local_cluster as local_cluster

__version__ = "0.2.0.dev0"

__getattr__, __dir__ = lazy(__name__, __file__, functions="commands")

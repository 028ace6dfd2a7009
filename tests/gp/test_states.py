"""States: what a `state()` writes is what its type says, so that `from_state` is checked against it."""

import json
import types
import typing

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf import (
    Gaussian,
    LandmarkFeatures,
    LocalGaussianFeatures,
    RandomFourierFeatures,
    TanimotoMinMax,
    TanimotoMinMaxFeatures,
)
from daskrf.gp.choice.lengthscale import LengthScaleSearch, LengthScaleState
from daskrf.gp.choice.mapchoice import MapChoice, MapChoiceState, MapTrial
from daskrf.gp.choice.metricchoice import MetricChoice, MetricChoiceState, MetricTrial
from daskrf.gp.processes.coregionalized import CoregionalizedGP, CoregionalizedState
from daskrf.gp.processes.exact import ExactGP, ExactState
from daskrf.gp.processes.kerneltrials import KernelChoice, KernelChoiceState, Trial
from daskrf.gp.processes.local import LocalState
from daskrf.gp.processes.process import FeatureSpaceState
from daskrf.gp.processes.processes import gp_for, model_from_state
from daskrf.gp.processes.separate import SeparateGP, SeparateState
from daskrf.gp.processes.sparse import SparseState
from daskrf.gp.validation.agreement import Agreement, AgreementState
from daskrf.gp.validation.probability import LinkState, ProbabilityLink
from daskrf.kernels.metric import MetricGaussian
from daskrf.measurements.tally import TargetState, TargetTally
from daskrf.molecules import FingerprintSpec
from daskrf.molecules.counts.spec import FingerprintState
from daskrf.tables.values.values import Scale, ScaleState

RNG = np.random.default_rng(5)
X = sp.csr_matrix(RNG.poisson(0.4, (60, 30)).astype(np.int32))
Y = RNG.normal(size=(60, 2)) + X[:, [0, 1]].toarray()


def faults(value: object, hint: object, at: str = "state") -> list[str]:
    """Return where a value read from JSON is not of a type; slow and plain."""
    kind, of = typing.get_origin(hint), typing.get_args(hint)
    if typing.is_typeddict(hint):
        fields = typing.get_type_hints(hint, include_extras=True)
        optional = {
            name
            for name, field in fields.items()
            if typing.get_origin(field) is typing.NotRequired or not hint.__total__
        }
        if not isinstance(value, dict):
            return [f"{at} is no object"]
        wrong = [f"{at} lacks {name}" for name in fields.keys() - optional - value.keys()]
        wrong += [f"{at} has {name}, which its type lacks" for name in value.keys() - fields.keys()]
        return wrong + [
            fault
            for name in fields.keys() & value.keys()
            for fault in faults(value[name], fields[name], f"{at}.{name}")
        ]
    if kind is typing.NotRequired:
        return faults(value, of[0], at)
    if kind in (typing.Union, types.UnionType):
        return [] if any(not faults(value, each, at) for each in of) else [f"{at} is {value!r}"]
    if kind is typing.Literal:
        return [] if value in of else [f"{at} is {value!r}"]
    if kind is dict:
        right = isinstance(value, dict)
        return (
            []
            if right and not any(faults(each, of[1]) for each in value.values())
            else [f"{at} is {value!r}"]
        )
    if kind is tuple and Ellipsis not in of:
        right = isinstance(value, list) and len(value) == len(of)
        return [] if right and not any(map(faults, value, of)) else [f"{at} is {value!r}"]
    if kind is not None:  # a list or another sequence of values of one type
        return (
            [fault for each in value for fault in faults(each, of[0], f"{at}[]")]
            if isinstance(value, list)
            else [f"{at} is no list"]
        )
    if isinstance(hint, type) and issubclass(hint, tuple):
        return faults(value, tuple[tuple(typing.get_type_hints(hint).values())], at)
    right = hint is object or isinstance(value, (int, float) if hint is float else hint)
    return [] if right else [f"{at} is {value!r}, no {hint}"]


def written(state: object) -> object:
    return json.loads(json.dumps(state))


PROCESSES = {
    "features": (gp_for(TanimotoMinMaxFeatures(64), noise_variance=0.5), FeatureSpaceState),
    "sparse": (gp_for(LandmarkFeatures(8)), SparseState),
    "local": (gp_for(LocalGaussianFeatures(64)), LocalState),
    "cholesky": (ExactGP(TanimotoMinMax(), noise_variance=0.5), ExactState),
    "cg": (ExactGP(TanimotoMinMax(), solver="cg", n_draws=4, n_features=64), ExactState),
    "several": (CoregionalizedGP(TanimotoMinMax(), correlation=np.eye(2)), CoregionalizedState),
}


@pytest.mark.filterwarnings("ignore::daskrf.errors.CalibrationWarning")
@pytest.mark.parametrize("name", PROCESSES)
def test_the_state_of_a_process_is_of_its_type(name: str) -> None:
    gp, hint = PROCESSES[name]
    gp.fit(X, Y if name == "several" else Y[:, 0])
    state = written(gp.state())
    assert not faults(state, hint)
    assert written(model_from_state(state, gp.arrays()).state()) == state


@pytest.mark.filterwarnings("ignore::daskrf.errors.CalibrationWarning")
def test_the_state_of_separate_processes_is_of_its_type() -> None:
    parts = [gp_for(TanimotoMinMaxFeatures(64)).fit(X, y) for y in Y.T]
    assert not faults(written(SeparateGP(parts, [[1], [0]]).state()), SeparateState)


KERNEL, METRIC = TanimotoMinMax(), MetricGaussian(2.0, "")
TRIALS = (Trial(KERNEL, "a", -1.0, 0.5), Trial(Gaussian(2.0), "b", -2.0, 0.1))
MAP = TanimotoMinMaxFeatures(64)
TALLY = TargetTally(others=True)
TALLY.see(np.array([1.0, 2.0]), np.array([0, 1], np.int8))
STATES = {
    "link": (ProbabilityLink(-1.0, 2.0), LinkState),
    "agreement": (Agreement(9, 0.95, 1.0, 0.1, 9, 1.0, 0.5), AgreementState),
    "map choice": (MapChoice(MAP, (MapTrial(MAP, -1.0, 0.5),), 9, 2), MapChoiceState),
    "metric choice": (MetricChoice(METRIC, 1, (MetricTrial(1, -1.0, 0.5),), 9, 2, (0.1,)), MetricChoiceState),
    "kernel choice": (
        KernelChoice(
            KERNEL,
            TRIALS,
            *(9, 2, KERNEL, 3, {"noise_variance": 1.0}),
            evidence={1: 2.0, 0: 1.0},
            weighs_descriptors=True,
            first=1,
            weightless=("positions",),
        ),
        KernelChoiceState,
    ),
    "plain kernel choice": (KernelChoice(KERNEL, TRIALS, 9, 2), KernelChoiceState),
    "one kind": (FingerprintSpec("morgan:2"), FingerprintState),
    "several kinds": (FingerprintSpec(["morgan:2", "torsion"], size=64), FingerprintState),
    "scale": (Scale("y", "py"), ScaleState),
    "tally": (TALLY, TargetState),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_is_of_its_type(name: str) -> None:
    value, hint = STATES[name]
    state = written(value.state())
    assert not faults(state, hint)
    if hasattr(value, "from_state"):
        assert written(type(value).from_state(state).state()) == state


def test_the_state_of_a_length_scale_is_of_its_type() -> None:
    search = LengthScaleSearch(RandomFourierFeatures(Gaussian(2.0), 64), 2.0, (1.0, 2.0), (-2.0, -1.0), 9)
    state = written(search.state())
    assert not faults(state, LengthScaleState)
    again = LengthScaleSearch.from_state(state, search.feature_map)
    assert written(again.state()) == state


def test_faults_are_seen() -> None:
    assert faults({"offset": 1.0}, LinkState) == ["state lacks slope"]
    assert faults({"offset": 1.0, "slope": "2"}, LinkState) == ["state.slope is '2', no <class 'float'>"]
    assert faults({"offset": 1.0, "slope": 2.0, "x": 1}, LinkState) == ["state has x, which its type lacks"]

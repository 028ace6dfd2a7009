"""Contract tests run over what is there: a new map or kernel has a case, or a sentence says what it lacks."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.exports import declared
from daskrf.features import FeatureMap, known_maps
from daskrf.features.featuremap import MapFacts
from daskrf.kernels import Gaussian, Kernel
from daskrf.kernels.radial import RadialKernel
from tests.discovery import LENGTH, arguments, choices_of
from tests.features import maps
from tests.kernels import test_contract as kernels

FACTS = MapFacts("toy", "k", "reals", "floats", "z M", "M", "nothing", "Nobody 2000", "never")


class Toy(FeatureMap):
    """A map of which nobody has written a case; it has no `facts`, which would make it known everywhere."""

    def __init__(
        self,
        kernel: RadialKernel,
        n_components: int = 64,
        *,
        length_scale: float | Literal["auto"] = "auto",
        way: Literal["short", "long"] = "short",
        signed: bool = False,
        random_state: int = 0,
    ) -> None:
        self.kernel, self.length_scale, self.way, self.signed = kernel, length_scale, way, signed
        self.n_components, self.random_state = n_components, random_state

    def transform(self, X: Any) -> np.ndarray:
        return np.zeros((X.shape[0], self.n_components), np.float32)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> type[FeatureMap]:
    monkeypatch.setattr(Toy, "facts", FACTS, raising=False)
    return Toy


def test_a_map_is_made_as_its_class_says(toy: Any) -> None:
    assert choices_of(toy) == {"way": ("short", "long"), "signed": (False, True)}
    assert arguments(toy) == {"kernel": Gaussian(1.0), "length_scale": LENGTH}
    found, missing = maps.derived([toy], maps.TABLE)
    assert (list(found), missing) == (["toy", "toy way long", "toy signed True"], {})
    assert (found["toy"].make(3).n_components, found["toy"].golden) == (3, "")
    assert found["toy way long"].make(9, random_state=4).get_params(deep=False) == {
        **found["toy"].make(9, random_state=4).get_params(deep=False),
        "way": "long",
    }
    assert (found["toy"].rows() == maps.reals()).all()


def test_a_map_that_cannot_be_made_needs_a_case(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> None:
        if self.way == "long":
            raise InputError("No way.")

    monkeypatch.setattr(toy, "_check_parameters", refuse)
    found, missing = maps.derived([toy], maps.TABLE)
    assert list(found) == ["toy", "toy signed True"]
    (words,) = missing.values()
    assert words.startswith(
        "'toy way long' cannot be made and fitted as Toy says (No way.): add a Case of this"
    )
    assert words.endswith("to TABLE in tests/features/maps.py.")

    monkeypatch.setattr(toy, "fit", lambda self, X: 1 / 0)
    assert list(maps.derived([toy], {})[1]) == ["toy"]


def test_every_map_and_each_of_its_choices_has_a_case() -> None:
    """Without the table: what `derived` leaves out is seen, whatever it finds today."""
    made = [case.make() for case in maps.MAPS.values()]
    for cls in (cls for cls in known_maps() if cls.__module__.startswith("daskrf.")):
        own = [each for each in made if type(each) is cls]
        assert own, cls
        for name, values in choices_of(cls).items():
            assert {getattr(each, name) for each in own} == set(values), (cls, name)


def test_a_choice_that_no_case_has_gets_one() -> None:
    """Of a map with cases: the promises are those of its first one."""
    table = {name: case for name, case in maps.TABLE.items() if name != "fastfood fft"}
    found, _ = maps.derived(known_maps(), table)
    case = found["fastfood projection fft"]
    assert case.make(8).projection == "fft"
    assert (case.least, case.golden) == (2, "")


def test_a_kernel_is_made_as_its_class_says() -> None:
    class Plain(Gaussian):
        """A kernel of defaults, which nobody can choose: it outlives the test."""

        name = ""

    class Needy(Gaussian):
        """A kernel that needs a text."""

        name = ""

        def __init__(self, text: str) -> None:
            super().__init__(1.0)

    found, missing = kernels.derived([Plain, Needy, Gaussian], kernels.TABLE)
    assert [type(kernel) for kernel in found] == [Plain]
    assert missing == [
        "Needy cannot be made as its signature says (the type of text tells no value): add one, with "
        "parameters that suit counts, to TABLE in tests/kernels/test_contract.py."
    ]


def test_every_kernel_is_in_the_contract_tests() -> None:
    declared_here = declared("daskrf.kernels", Kernel).values()
    ours = [cls for cls in declared_here if cls.__module__.startswith("daskrf.")]
    concrete = {cls for cls in ours if not cls.__abstractmethods__}
    tested = {type(kernel) for kernel in kernels.KERNELS}
    assert {cls.__name__ for cls in concrete - tested} == set(kernels.APART)

"""Messages of errors on the command line name its options, and nothing else is changed."""

from __future__ import annotations

import pytest

from daskrf.cli.maps import _ALL
from daskrf.cli.wording import _FLAGS, _NAMES, _WORDS, RENAMED, in_options


@pytest.mark.parametrize(
    ("python", "options"),
    [
        ("n_components must be positive, not 0.", "--components must be positive, not 0."),
        ("threshold is of selection='farthest', not", "--threshold is of --selection farthest, not"),
        ('use projection="hadamard".', "use --projection hadamard."),
        ("divide rows, or use a kernel with normalize=True", "divide rows, or use --normalize"),
        ("raise length_scale.", "raise --length-scale."),
        ("c must be a finite number", "--constant must be a finite number"),
        ("random_state must be", "--seed must be"),
    ],
)
def test_parameters_become_options(python: str, options: str) -> None:
    assert in_options(python) == options


@pytest.mark.parametrize(
    "message",
    [
        "/data/n_components/n_terms.smi is missing",
        "s3://bucket/length_scale is missing",
        "DotProduct((0.0, 1.0), normalize=True) is too large",
        "the degree must be; the method is this; no threshold is above",
        "column max_degree_2 is unknown",
        "Polynomial(2, c=0.0)",
    ],
)
def test_other_words_stay(message: str) -> None:
    assert in_options(message) == message


def test_all_of_them_are_options() -> None:
    back = {parameter: option for option, parameter in RENAMED.items()}
    known = {*_ALL, "exclude_labelled"}
    assert {back.get(name, name) for name in (*_NAMES, *_WORDS, *_FLAGS)} <= known

"""Messages of errors on the command line name its options, and nothing else is changed."""

from __future__ import annotations

import inspect
import re

import pytest

import daskrf
from daskrf import features
from daskrf.cli.commands import COMMANDS
from daskrf.cli.wording import in_options


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


TEMPLATES = [
    "{} must be positive.",
    "The rows are too long; {} is 3, raise it.",
    "leave it out, or use {}='auto'",
    'leave it out, or use {}="auto"',
    "go on by {}=True",
    "say {0}=True or {0}=False",
    "choose one of them by {}=NAME",
]


def parameters() -> list[str]:
    """Return the parameters of all maps and drivers: what a message of the package may name."""
    functions = [daskrf.fingerprint, daskrf.featurize, daskrf.fit, daskrf.predict, daskrf.screen, daskrf.plan]
    maps = [kind for kind in vars(features).values() if inspect.isclass(kind)]
    return sorted({name for made in (*functions, *maps) for name in inspect.signature(made).parameters})


@pytest.mark.parametrize("parameter", parameters())
def test_an_option_that_an_error_names_is_there(parameter: str) -> None:
    options = {o for c in COMMANDS for p in c.params for o in (*p.opts, *p.secondary_opts)}
    for template in TEMPLATES:
        named = re.findall(r"--[a-z][a-z-]*", in_options(template.format(parameter)))
        assert set(named) <= options, template


@pytest.mark.parametrize(
    ("python", "options"),
    [
        ("go on by accept_rejects=True.", "go on by --accept-rejects."),
        ("replace them by overwrite=True", "replace them by --overwrite"),
        ("say maximize=True or maximize=False, or", "say --maximize or --minimize, or"),
        ("fit with direction=maximize.", "fit with --direction maximize."),
        ("choose one of them by target=NAME.", "choose one of them by --target NAME."),
        ("or drop exclude_labelled.", "or drop --exclude-labelled."),
    ],
)
def test_parameters_of_drivers_become_options(python: str, options: str) -> None:
    assert in_options(python) == options

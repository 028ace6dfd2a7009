"""Errors in the words of the command line: what Python calls ``n_components=512`` is an option here."""

from __future__ import annotations

import re

__all__ = ["RENAMED", "in_options"]

RENAMED = {
    "components": "n_components",
    "seed": "random_state",
    "terms": "n_terms",
    "landmarks": "n_landmarks",
    "centroids": "n_centroids",
    "constant": "c",
}
"""Options that have another name than the parameter of a map that they are."""

# Parameters whose names are never ordinary words, and those that are meant only before a value or a verb.
_NAMES = (
    *(name for name in RENAMED.values() if name != "c"),
    *("length_scale", "norm_range", "bias_correction", "degree_measure", "max_degree", "exclude_labelled"),
)
_WORDS = ("method", "expansion", "projection", "selection", "hashing", "threshold", "nu", "c")
_FLAGS = ("normalize", "orthogonal", "accept_rejects", "overwrite", "maximize")
_OPPOSITES = {"maximize": "minimize"}  # flags, and what they are called where they are off
_CHOICES = ("direction", "target")  # with a value that needs no quotes
_OPTION = {parameter: f"--{option}" for option, parameter in RENAMED.items()}
_REPR = r"\w+\((?:[^()]|\([^()]*\))*\)"  # of a kernel, whose parameters stay what they are
_FOUND = re.compile(
    rf"""(?P<repr>{_REPR})
    | (?<![\w./\\-])(?:
        (?:a\ kernel\ with\ )?(?P<flag>{"|".join(_FLAGS)})=True
      | (?P<off>{"|".join(_OPPOSITES)})=False
      | (?P<choice>{"|".join(_CHOICES)})=(?P<chosen>\w+)
      | (?P<given>{"|".join((*_NAMES, *_WORDS))})=(?P<quote>["'])(?P<value>\w+)(?P=quote)
      | (?P<name>{"|".join(_NAMES)})(?![\w/\\(=-]|\.\w)
      | (?:(?<=^)|(?<=;\ ))(?P<word>{"|".join(_WORDS)})(?=\ (?:must|is)\ )
    )""",
    re.VERBOSE,
)


def in_options(sentence: str) -> str:
    """Return the message of an error with options of the command line in place of parameters of maps.

    Examples
    --------
    >>> in_options("4 terms need a feature each; raise n_components or lower n_terms.")
    '4 terms need a feature each; raise --components or lower --terms.'
    >>> in_options("Gaussian(length_scale=2.0) pads; use projection=\\"hadamard\\".")
    'Gaussian(length_scale=2.0) pads; use --projection hadamard.'
    """
    return _FOUND.sub(_translated, sentence)


def _translated(found: re.Match[str]) -> str:
    if found["repr"]:
        return found["repr"]
    if found["flag"]:
        return f"--{found['flag'].replace('_', '-')}"
    if found["off"]:
        return f"--{_OPPOSITES[found['off']]}"
    if found["choice"]:
        return f"--{found['choice']} {found['chosen']}"
    name = found["given"] or found["name"] or found["word"]
    option = _OPTION.get(name, f"--{name.replace('_', '-')}")
    return f"{option} {found['value']}" if found["given"] else option

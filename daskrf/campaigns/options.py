"""What a campaign is asked for, from its file and the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path, PurePath
from typing import Any

from daskrf.campaigns.firstbatch import By
from daskrf.errors import InputError, OptionError
from daskrf.files.backend import as_path, exists, matching
from daskrf.parameters import Option
from daskrf.quantities import amount
from daskrf.tables import TableFormat


@dataclass(frozen=True, kw_only=True)
class CampaignOptions:
    """The options of a campaign; see `daskrf.campaign`."""

    library: Any = None
    command: str | None = None
    function: str | None = None
    timeout: float | None = None
    per_call: int | None = None
    target: str | int | None = None
    direction: str | None = None
    first: int = 100
    first_by: By = "diverse"
    seed: int = 0
    rounds: int = 10
    molecules: int | None = None
    patience: int | None = None
    estimate: bool = True
    hit: float | None = None
    accept_failures: bool = False


def check_options(path: PurePath, options: CampaignOptions) -> None:
    """Refuse options that are missing or cannot be."""
    if options.library is None:
        raise InputError(f"{path} names no library; give library, the files, store or space to search.")
    if options.direction is None:
        raise InputError(
            f"{path} does not say which scores are good; give direction, maximize or minimize (docking "
            "scores in kcal/mol: minimize)."
        )
    if options.molecules is not None and options.molecules < options.first:
        raise OptionError(
            f"The campaign may score {amount(options.molecules, 'molecules')}, but its first batch has "
            f"{options.first:,}; give a smaller first."
        )
    names = [options.library] if isinstance(options.library, (str, os.PathLike)) else options.library
    for name in names:
        if not exists(as_path(name)) and not matching(as_path(name)):
            raise InputError(f"The library {name} of {path} does not exist; correct the path.")


def layout_among(values: dict[str, Any]) -> TableFormat | None:
    """Take the fields on the layout of the library out of others, and return what they say."""
    flags = {
        option.flags.removeprefix("--").replace("-", "_") or name: name
        for name in (each.name for each in fields(TableFormat) if each.name != "extra")
        for option in [TableFormat.options.get(name, Option())]
    }
    named = {name: values.pop(flag) for flag, name in flags.items() if flag in values}
    return TableFormat(**named) if named else None


def beside(path: PurePath, names: Any) -> Any:
    """Return paths that are relative to the folder of a file as paths that are valid here."""
    if not isinstance(names, str):
        return [beside(path, name) for name in names]
    return names if "://" in names else str(Path(path).parent / names)

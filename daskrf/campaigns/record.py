"""The record of a campaign: what it was asked for, and what of it cannot change any more."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePath

from daskrf.campaigns.history import BATCH, CALLS
from daskrf.campaigns.options import CampaignOptions
from daskrf.errors import InputError, printable
from daskrf.files.backend import atomic_write, backend, exists, is_file
from daskrf.quantities import listed
from daskrf.storage.kinds import kind_of
from daskrf.tables import TableFormat

RECORD, MODEL = "campaign.json", "model"


def record_of(
    options: CampaignOptions, settings: Mapping[str, Mapping[str, object]], layout: TableFormat | None
) -> dict[str, object]:
    """Return what a campaign is asked for, by field, as JSON has it.

    Parameters
    ----------
    options : CampaignOptions
    settings : mapping of str to mapping
        The options of other commands, by the table of the file.
    layout : TableFormat, optional
        How the library is laid out.
    """
    plain = asdict(options)
    library = plain.pop("library")
    files = [library] if isinstance(library, (str, os.PathLike)) else library
    tables = {f"[{table}] {name}": v for table, some in settings.items() for name, v in some.items()}
    names = [PurePath(name).name for name in files]
    record = {
        "library": names,
        "layout": None if layout is None else asdict(layout),
        **plain,
        **tables,
    }
    content: dict[str, object] = json.loads(json.dumps(record, default=str))
    return content


def write_record(folder: PurePath, record: Mapping[str, object]) -> None:
    """Write the record of a campaign into its folder."""
    atomic_write(folder / RECORD, (json.dumps(record, indent=1) + "\n").encode())


def check_record(folder: PurePath, wanted: Mapping[str, object]) -> str:
    """Check that a folder holds this campaign or nothing; return in words what has changed, or an empty text.

    Parameters
    ----------
    folder : Path
    wanted : mapping
        The record of the campaign as it is asked for now.

    Raises
    ------
    InputError
        If the folder holds something else, or what is there depends on options that differ.
    """
    path = folder / RECORD
    if not is_file(path):
        others = [name for name in backend(folder).names(folder) if not name.startswith(".")]
        if others:
            raise InputError(
                f"{folder} holds other files ({listed(others)}) and no campaign; give another output."
            )
        return ""
    try:
        earlier = json.loads(Path(path).read_text())
        lasting = {name: earlier[name] for name in _lasting(folder, earlier)}
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is damaged; give another output, or delete it if the settings are as they were."
        ) from None
    fixed = _lasting(folder, wanted)
    if differing := _changes(lasting, {name: wanted[name] for name in fixed if name in wanted}):
        raise InputError(
            f"{folder} holds a campaign with another {'; '.join(differing)}; give another output, or repeat "
            "what it was begun with."
        )
    changed = _changes(earlier, wanted)
    return f"changed since the run before: {'; '.join(changed)}" if changed else ""


def _lasting(folder: PurePath, record: Mapping[str, object]) -> list[str]:
    """Return the fields on which depends what is there, so that they cannot change any more."""
    names: list[str] = []
    if exists(folder / BATCH.format(1)):
        names += ["library", "layout", "first", "first_by", "seed"]
    if any(Path(folder / CALLS.format(1)).glob("call-*[0-9]/result.json")):
        names += ["target", "direction"]
    if kind_of(folder / MODEL, missing_ok=True) is not None:
        names += [name for name in record if name.startswith("[fit] ")]
    return names


def _changes(earlier: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return in words which values differ."""
    names = [name for name in {**earlier, **now} if earlier.get(name) != now.get(name)]
    return [f"{name} ({_shown(earlier.get(name))}, now {_shown(now.get(name))})" for name in names]


def _shown(value: object) -> str:
    return "none" if value is None else printable(value if isinstance(value, str) else json.dumps(value), 60)

"""Reactions and a list of building blocks -> a space: which blocks fit which slots."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import get_args

from distributed import Client

from daskrf.commands import READING
from daskrf.errors import OptionError
from daskrf.files.backend import as_path
from daskrf.jobs.job import run
from daskrf.parameters import Command
from daskrf.quantities import amount
from daskrf.report.lines import report_text
from daskrf.report.notebook import Shown
from daskrf.report.tabulation import text_table
from daskrf.screens.space.assigning import LEFT_OUT, BlockFragments, BuildRequest, BuildSpaceJob, BuiltSlot
from daskrf.sources.inputs import Input
from daskrf.spaces.assignment import FRAGMENTS
from daskrf.tables import TableFormat
from daskrf.workers.progress import Progress

CLI = Command(
    "daskrf build-space reactions.smarts blocks.smi -o space/",
    step=10,
    options={"fragments": READING, "accept_rejects": READING},
    resumable=True,
    shards=True,
)

_WIDE = 60  # characters of a template in the report
_REASONS = 5  # named in the report


@dataclass(frozen=True)
class BuildReport(Shown):
    """What `build_space` made.

    Attributes
    ----------
    output : Path
    slots : tuple of BuiltSlot
        For each slot of each reaction: its template, and how many blocks fit it.
    reactions : tuple of str
        Names of the reactions of the space.
    refused : dict of str to str
        Why other reactions are left out, by name.
    blocks, read : int
        Blocks that are in a slot, and blocks that were read.
    left_out : dict of str to int
        How many blocks are left out, by the reason.
    inputs : tuple of str
        How the files were read.
    seconds : float
    """

    output: PurePath
    slots: tuple[BuiltSlot, ...]
    reactions: tuple[str, ...]
    refused: dict[str, str]
    blocks: int
    read: int
    left_out: dict[str, int]
    inputs: tuple[str, ...] = field(default=(), repr=False)
    seconds: float = 0.0

    def __str__(self) -> str:
        first = (
            f"{amount(len(self.reactions), 'reactions')} and {amount(self.blocks, 'blocks')} of "
            f"{self.read:,} read, in {self.output} ({self.seconds:.1f} s)"
        )
        rows = [
            [slot.reaction, slot.slot, slot.template[:_WIDE], slot.blocks]
            for slot in self.slots
            if slot.reaction not in self.refused
        ]
        notes = [f"reaction {name} is left out: {why}" for name, why in self.refused.items()]
        if self.left_out:
            notes.append(self._words_of_left_out())
        notes.append(f"compare products with RDKit's: daskrf check-space {self.output}")
        table = text_table(["reaction", "slot", "template", "blocks"], rows)
        return "\n".join([report_text(first, self.inputs), "", table, "", *notes])

    def _words_of_left_out(self) -> str:
        """Return how many blocks are left out, and the most frequent reasons."""
        reasons = [
            f"{reason} ({count:,}{'; --fragments largest takes the largest' * (reason == FRAGMENTS)})"
            for reason, count in self.left_out.items()
        ]
        rest = [f"other reasons ({sum([*self.left_out.values()][_REASONS:]):,})"] * (len(reasons) > _REASONS)
        return (
            f"left out: {sum(self.left_out.values()):,} of {amount(self.read, 'blocks')}, listed in "
            f"{self.output / LEFT_OUT}: {', '.join([*reasons[:_REASONS], *rest])}"
        )

    def to_json(self) -> str:
        """Return everything as an object of JSON."""
        slots = [slot._asdict() for slot in self.slots]
        values = {name: getattr(self, name) for name in ("refused", "blocks", "read", "left_out")}
        return json.dumps({"output": str(self.output), "slots": slots, **values}, indent=2)


def build_space(
    reactions: str | os.PathLike[str],
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    fragments: BlockFragments = "reject",
    format: TableFormat | None = None,
    accept_rejects: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
) -> BuildReport:
    """Assign building blocks to the slots of reactions, which makes a make-on-demand space.

    A block fits a slot if it matches the SMARTS of the slot. The space is a folder with the tables reactions,
    blocks and slots, which every command for spaces reads, and left-out, with the blocks that are in no slot
    and the reason. Reactions whose products cannot be assembled from synthons, and those with a slot that no
    block fits, are left out. Of blocks with the same structure the first one is taken.

    Parameters
    ----------
    reactions : path
        SMARTS of reactions, one in each line with a name before or after it; or a table with the columns name
        (or reaction, rxn_id) and smarts; or an RXN file.
    inputs : path, or sequence of paths
        Files of building blocks, in any format of libraries.
    output : path
        Folder of the space.
    fragments : {"largest", "reject"}
        What to do with blocks of several fragments, such as salts: take the largest, or leave them out.
    format : TableFormat, optional
        As in `fingerprint`.
    accept_rejects : bool
        As in `fingerprint`.
    client, progress
        As in `fingerprint`.

    Returns
    -------
    BuildReport

    Raises
    ------
    InputError
        If the reactions cannot be read, an ID stands for different molecules, or no reaction makes products.
    StoreError
        If something is at the output.
    """
    if fragments not in get_args(BlockFragments):
        raise OptionError(f"fragments is one of {', '.join(get_args(BlockFragments))}, not {fragments!r}.")
    blocks = Input(inputs, format, accept_rejects=accept_rejects)
    request = BuildRequest(as_path(reactions), blocks, as_path(output), fragments)
    return run(BuildSpaceJob(request, BuildReport), client, progress)

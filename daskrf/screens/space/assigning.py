"""The job of building a space: assign building blocks to the slots of reactions, and write tables."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Literal, NamedTuple, Protocol, TextIO

import numpy as np
import numpy.typing as npt

from daskrf.arrays import NamedArrays
from daskrf.errors import InputError, StoreError, printable
from daskrf.files.backend import absolute, as_path, backend, publish, staging
from daskrf.files.disk import work_folder
from daskrf.jobs.job import Disk, Job, Need, Report, Run
from daskrf.jobs.memory import need_of_blocks
from daskrf.jobs.pieces import Pieces
from daskrf.jobs.tree import Reduction, Root, Tree
from daskrf.molecules.isolation import Lost, each
from daskrf.molecules.structures import unmarked
from daskrf.quantities import amount
from daskrf.sources.inputs import Input, scan_inputs, tables_of
from daskrf.spaces.assignment import FRAGMENTS, Fit, Template, templates_of
from daskrf.spaces.cut import in_helpers
from daskrf.spaces.reactionlists import read_reactions
from daskrf.spaces.reactions import Reaction
from daskrf.storage.stores.store import hash_of
from daskrf.tables import Library, RowBatch, read_partition
from daskrf.workers.calls import check_stop

BlockFragments = Literal["largest", "reject"]
NO_FIT = "it fits no slot"
NO_REACTION = "it fits slots of reactions that are left out"
REPEATED = "it has the structure of an earlier block"
LEFT_OUT = "left-out.tsv.gz"
FILES = ("blocks.tsv.gz", "slots.tsv.gz", LEFT_OUT, "reactions.tsv")

_VERSION = 1  # of the partial results
_ROWS = 10_000  # of a piece: 5 to 20 seconds with 30 templates
_ROW_BYTES = 60  # of a block in compressed tables, in some ten slots
_SHOWN = 3  # IDs in a message

Integers = npt.NDArray[np.int64]


@dataclass
class Assigned:
    """What some rows of a library fit: a partial result.

    Attributes
    ----------
    row, structure : int64 arrays of the same length
        Number of the row, and hash of its structure; 0 if the row cannot be used.
    fits : uint8 array, shape (n, n_bytes)
        Which templates it matches, as packed bits.
    reasons : list of str, of the same length
        Why a row cannot be used, or an empty string.
    """

    row: Integers
    structure: Integers
    fits: npt.NDArray[np.uint8]
    reasons: list[str]

    def __iadd__(self, other: Assigned) -> Assigned:
        self.row = np.concatenate([self.row, other.row])
        self.structure = np.concatenate([self.structure, other.structure])
        self.fits = np.concatenate([self.fits, other.fits])
        self.reasons += other.reasons
        return self

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the arrays of a checkpoint."""
        text = np.frombuffer("\n".join(self.reasons).encode(), np.uint8)
        return {"row": self.row, "structure": self.structure, "fits": self.fits, "reasons": text}

    def in_order(self) -> Assigned:
        """Return the same by number of the row."""
        order = np.argsort(self.row)
        reasons = [self.reasons[i] for i in order.tolist()]
        return Assigned(self.row[order], self.structure[order], self.fits[order], reasons)


@dataclass(frozen=True)
class Assignment(Reduction[RowBatch, Assigned, Assigned]):
    """Finds which templates each row of a library matches."""

    templates: tuple[Template, ...]
    largest: bool
    name: str = "assign"

    def zero(self) -> Assigned:
        none = np.zeros((0, self._n_bytes), np.uint8)
        return Assigned(np.zeros(0, np.int64), np.zeros(0, np.int64), none, [])

    def add(self, total: Assigned, block: RowBatch) -> None:
        texts = [text.partition(" ")[0] for text in unmarked(block.smiles)]
        results = each("daskrf.spaces.assignment:Assigner", (self.templates, self.largest), texts)
        bits = np.zeros((len(texts), 8 * self._n_bytes), np.uint8)
        structure, reasons = np.zeros(len(texts), np.int64), list[str]()
        for i, result in enumerate(results):
            if isinstance(result, Fit):
                bits[i, list(result.templates)] = 1
                structure[i] = result.structure
            reasons.append(_reason(result))
        rejects = [reject.row for reject in block.rejects]
        total += Assigned(block.row, structure, np.packbits(bits, axis=1), reasons)
        total += Assigned(
            np.array(rejects, np.int64),
            np.zeros(len(rejects), np.int64),
            np.zeros((len(rejects), self._n_bytes), np.uint8),
            [reject.reason for reject in block.rejects],
        )

    def finalize(self, total: Assigned, rest: Iterator[Assigned]) -> Assigned:
        return total

    def restore(self, arrays: NamedArrays) -> Assigned:
        reasons = arrays["reasons"].tobytes().decode().split("\n") if len(arrays["row"]) else []
        fits = arrays["fits"].reshape(-1, self._n_bytes)
        return Assigned(arrays["row"], arrays["structure"], fits, reasons)

    @property
    def _n_bytes(self) -> int:
        return -(-len(self.templates) // 8)


def _reason(result: Fit | str | Lost) -> str:
    """Return why a block cannot be used, on one line; empty if it can."""
    if isinstance(result, Fit):
        return "" if result.templates else NO_FIT
    return " ".join((f"RDKit {result.reason}" if isinstance(result, Lost) else result).split())


@dataclass(frozen=True)
class BlockPieces:
    """Pieces of a library of building blocks, by number of the partition: a chunk for `Assignment`."""

    library: Library
    spool: str
    partitions: tuple[int, ...] = ()

    def of(self, partitions: tuple[int, ...]) -> BlockPieces:
        """Return the chunk of some partitions."""
        return replace(self, partitions=partitions)

    def __iter__(self) -> Iterator[RowBatch]:
        for partition in self.partitions:
            for batch in read_partition(self.library, partition, as_path(self.spool)):
                check_stop()
                yield batch


@dataclass(frozen=True)
class BuildRequest:
    """What a space is built from.

    Attributes
    ----------
    reactions : Path
    blocks : Input
    output : Path
    fragments : {"largest", "reject"}
        What to do with blocks of several fragments.
    """

    reactions: PurePath
    blocks: Input
    output: PurePath
    fragments: BlockFragments = "reject"


class BuiltSlot(NamedTuple):
    """A slot of a reaction: its template, and how many blocks fit it."""

    reaction: str
    slot: int
    template: str
    blocks: int


@dataclass
class BuildSpaceJob(Job[Report]):
    """The job of building a space.

    Attributes
    ----------
    request : BuildRequest
    made : callable
        Makes the report.
    """

    request: BuildRequest
    made: Callable[..., Report]
    output: PurePath = field(init=False)
    reactions: list[Reaction] = field(init=False)
    templates: list[list[Template]] = field(init=False)
    library: Library = field(init=False)
    tree: Tree = field(init=False)

    name = "build-space"

    def __post_init__(self) -> None:
        self.output = self.request.output

    @property
    def locked(self) -> PurePath:
        """The output is made at once, at the end."""
        return work_folder(self.output)

    def plan(self, run: Run) -> None:
        """Read the reactions, and scan the blocks."""
        there = backend(self.output)
        if there.size(self.output) is not None or there.names(self.output):
            raise StoreError(f"{self.output} exists; give another path, or delete it.")
        self.reactions = read_reactions(self.request.reactions)
        self.templates = templates_of(self.reactions)
        files = self.request.blocks
        self.library = scan_inputs(
            files.source,
            files.format,
            _ROWS,
            run.work / "spool",
            run.progress,
            accept_rejects=files.accept_rejects,
        )

    @property
    def spec(self) -> dict[str, object]:
        """Everything that determines the assignment; all shards must agree on it."""
        return {
            "reactions": [[reaction.name, reaction.smarts] for reaction in self.reactions],
            "fragments": self.request.fragments,
            "library": self.library.state(),
        }

    @property
    def distinct(self) -> tuple[Template, ...]:
        """The distinct templates of all slots."""
        return tuple(dict.fromkeys(template for slots in self.templates for template in slots))

    @property
    def _number(self) -> dict[Template, int]:
        return {template: i for i, template in enumerate(self.distinct)}

    def _positions(self, reactions: Sequence[Reaction]) -> list[int]:
        """Return the positions of the templates of some reactions among the distinct ones."""
        number, several = self._number, zip(self.reactions, self.templates, strict=True)
        return sorted({number[t] for reaction, slots in several if reaction in reactions for t in slots})

    def need(self) -> Need:
        rows = self.library.n_rows
        disk = Disk(self.output, "the tables", 0, _ROW_BYTES * rows)
        return Need(finish=need_of_blocks(rows, len(self.distinct)), disk=disk)

    def pieces(self, run: Run) -> list[Pieces]:
        run.agree(self.spec)
        assignment = Assignment(self.distinct, self.request.fragments == "largest")
        blocks = BlockPieces(self.library, absolute(run.work / "spool"))
        root = Root(assignment, blocks.of, run.work / "assigned", hash_of([self.spec, _VERSION]))
        rows = [partition.stop - partition.start for partition in self.library.partitions]
        self.tree = Tree([root], [(i,) for i in range(len(rows))], rows, "parts of the blocks")
        return [self.tree]

    def finish(self, run: Run, made: int) -> Report:
        """Write the tables."""
        assigned: Assigned = self.tree.result().in_order()
        usable = np.array([not reason for reason in assigned.reasons], bool)
        first = _firsts(np.where(usable, assigned.structure, -assigned.row - 1))
        fits = np.unpackbits(assigned.fits, axis=1)[:, : len(self.distinct)].astype(bool)
        slots = self._slots(fits[usable & first].sum(axis=0))
        empty: dict[str, BuiltSlot] = {}
        for slot in slots:
            if not slot.blocks:
                empty.setdefault(slot.reaction, slot)
        refused = {reaction.name: reaction.refusal for reaction in self.reactions if reaction.refusal}
        working = [reaction for reaction in self.reactions if reaction.name not in {*empty, *refused}]
        self._check(assigned, working, refused, empty)
        for row in np.flatnonzero(usable & first & ~fits[:, self._positions(working)].any(axis=1)).tolist():
            assigned.reasons[row] = NO_REACTION
        for row in np.flatnonzero(usable & ~first).tolist():
            assigned.reasons[row] = REPEATED
        with staging(self.output.parent, self.output.name) as place:
            folder = place / "space"
            folder.mkdir()
            self._write(folder, run, assigned, fits, working)
            publish(self.output.parent, {self.output: folder})
        reasons = Counter(reason for reason in assigned.reasons if reason)
        return self.made(
            output=self.output,
            slots=tuple(slots),
            reactions=tuple(reaction.name for reaction in working),
            refused=refused | {name: _emptiness(slot) for name, slot in empty.items() if name not in refused},
            blocks=assigned.reasons.count(""),
            read=len(assigned.row),
            left_out=dict(reasons.most_common()),
            inputs=tables_of(self.library),
            seconds=run.seconds,
        )

    def _slots(self, counts: Integers) -> list[BuiltSlot]:
        number = self._number
        return [
            BuiltSlot(reaction.name, slot, template.smarts, int(counts[number[template]]))
            for reaction, slots in zip(self.reactions, self.templates, strict=True)
            for slot, template in enumerate(slots)
        ]

    def _check(
        self,
        assigned: Assigned,
        working: Sequence[Reaction],
        refused: Mapping[str, str],
        empty: Mapping[str, BuiltSlot],
    ) -> None:
        """Refuse to write a space without products."""
        if working:
            return
        reasons = {name: _emptiness(slot) for name, slot in empty.items()} | dict(refused)
        (name, why), *more = reasons.items()
        n_salts = assigned.reasons.count(FRAGMENTS)
        salts = f"; {amount(n_salts, 'blocks')} have several fragments: try --fragments largest"
        others = f" (and {amount(len(more), 'other reactions')}, too)" if more else ""
        raise InputError(
            f"{amount(len(assigned.row), 'blocks')} make no products: reaction {name} is left out, as {why}"
            f"{others}{salts if n_salts else ''}."
        )

    def _write(
        self,
        folder: Path,
        run: Run,
        assigned: Assigned,
        fits: npt.NDArray[np.bool_],
        working: Sequence[Reaction],
    ) -> None:
        """Write all tables; blocks are in the order of the library."""
        number = self._number
        places: dict[int, list[tuple[str, int]]] = {}
        for reaction, templates in zip(self.reactions, self.templates, strict=True):
            for slot, template in enumerate(templates if reaction in working else ()):
                places.setdefault(number[template], []).append((reaction.name, slot))
        with ExitStack() as files:
            blocks, slots, left_out, reactions = (
                _table(files, folder / name, columns)
                for name, columns in zip(
                    FILES,
                    (
                        ["block", "smiles"],
                        ["reaction", "slot", "block"],
                        ["block", "smiles", "reason"],
                        ["reaction", "reactants", "product"],
                    ),
                    strict=True,
                )
            )
            for reaction in working:
                reactants, _, product = reaction.smarts.partition(">>")
                reactions.writerow([reaction.name, reactants, product])
            for row, name, text in self._named(run, assigned):
                if reason := assigned.reasons[row]:
                    left_out.writerow([name, text, reason])
                    continue
                blocks.writerow([name, text])
                for position in np.flatnonzero(fits[row]).tolist():
                    slots.writerows([*place, name] for place in places.get(position, []))

    def _named(self, run: Run, assigned: Assigned) -> Iterator[tuple[int, str, str]]:
        """Yield place among the rows, ID and SMILES of each block; refuse IDs of different molecules."""
        structures: dict[str, int] = {}
        others = dict[str, None]()
        for partition in range(len(self.library.partitions)):
            for batch in read_partition(self.library, partition, run.work / "spool"):
                at = np.searchsorted(assigned.row, batch.row).tolist()
                texts = self._stripped(batch.smiles)
                for place, name, text in zip(at, batch.id, texts, strict=True):
                    if (structure := int(assigned.structure[place])) and structures.setdefault(
                        name, structure
                    ) != structure:
                        others[name] = None
                    yield place, name, text
                for reject in batch.rejects:
                    yield int(np.searchsorted(assigned.row, reject.row)), "", reject.text
        if others:
            shown = ", ".join(printable(name, 40) for name in list(others)[:_SHOWN])
            raise InputError(
                f"{amount(len(others), 'IDs')} of the blocks {'stands' if len(others) == 1 else 'stand'} for "
                f"different molecules, such as {shown}; "
                "give each molecule its own ID."
            )

    def _stripped(self, smiles: list[str]) -> list[str]:
        """Return SMILES of the largest fragments, if these are asked for."""
        at = [i for i, text in enumerate(smiles) if "." in text.partition(" ")[0]]
        if self.request.fragments != "largest" or not at:
            return smiles
        plain = [text.partition(" ")[0] for text in unmarked([smiles[i] for i in at])]
        stripped = in_helpers("daskrf.spaces.assignment:Stripper", (), plain, str)
        texts = [*smiles]
        for i, before, after in zip(at, plain, stripped, strict=True):
            texts[i] = after or before
        return texts


def _emptiness(slot: BuiltSlot) -> str:
    return f"no block fits its slot {slot.slot}, {slot.template}"


def _firsts(values: Integers) -> npt.NDArray[np.bool_]:
    """Return which values are the first of their kind."""
    first = np.zeros(len(values), bool)
    first[np.unique(values, return_index=True)[1]] = True
    return first


class RowWriter(Protocol):
    """Writes rows of a table."""

    def writerow(self, row: Iterable[object], /) -> object: ...

    def writerows(self, rows: Iterable[Iterable[object]], /) -> object: ...


def _table(files: ExitStack, path: Path, columns: Sequence[str]) -> RowWriter:
    """Return a writer of tab-separated rows below a header."""
    file: TextIO
    if path.suffix == ".gz":
        raw = files.enter_context(gzip.GzipFile(path, "wb", compresslevel=6, mtime=0))
        file = files.enter_context(io.TextIOWrapper(raw, "utf-8", newline=""))
    else:
        file = files.enter_context(path.open("w", encoding="utf-8", newline=""))
    writer = csv.writer(file, delimiter="\t", lineterminator="\n")
    writer.writerow(columns)
    return writer

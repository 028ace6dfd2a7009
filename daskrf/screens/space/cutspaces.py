"""Cut spaces and their families on disk: made once for the searches of a folder, read once per process."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.arrays import NamedArrays
from daskrf.documents import JsonObject
from daskrf.errors import InputError, StoreError
from daskrf.files.backend import absolute, as_path, backend
from daskrf.jobs.job import Run
from daskrf.molecules import FingerprintSpec, rdkit_version
from daskrf.quantities import amount
from daskrf.spaces import CutSpace, Entries, Space, compare, cut, n_cuts
from daskrf.spaces.families import Family, Side, family_of, grouped
from daskrf.spaces.synthons import Reach
from daskrf.storage.model import read_checkpoint, write_checkpoint
from daskrf.storage.stores.store import hash_of
from daskrf.workers.progress import Progress

COMPARED = 50
"""Random combinations of blocks of each reaction that are compared with RDKit."""

_VERSION = 3  # of the tables
_FOLDER = ".daskrf-spaces"  # folder of tables, beside the outputs of searches
_CUT, _FAMILIES = "space-cut", "space-families"
_OF_SIDE = ("synthon", "reach", "edge", "overlap", "places")


@dataclass(frozen=True)
class SearchTables:
    """What tasks of a search need; see `CutSpace` for `own` (here `inner`) and `sums`."""

    inner: sparse.csr_matrix
    sums: npt.NDArray[np.float64]
    families: list[Family]


@dataclass(frozen=True)
class TablesPlace:
    """Where the tables of a space for one kind of fingerprint are, for `search_tables`.

    Attributes
    ----------
    folder : str
    key : str
        A hash of everything that determines the tables.
    n_columns : int
        Of the fingerprints.
    """

    folder: str
    key: str
    n_columns: int

    @classmethod
    def of(cls, space: Space, spec: FingerprintSpec, folder: PurePath) -> TablesPlace:
        """Return the place below a folder."""
        about = {"space": space.digest, "fingerprint": spec.state(), "rdkit": rdkit_version()}
        halves = [half for reaction in space.reactions for half in reaction.halves]
        if any(half.ring and half.ring.slots > 2 for half in halves):  # tables of before lack these reactions
            about |= {"rings": "through three slots"}
        key = hash_of(about | {"version": _VERSION})
        return cls(absolute(folder / key[:16]), key, spec.n_columns)


def kept_cut(space: Space, spec: FingerprintSpec, work: PurePath, key: str) -> CutSpace | None:
    """Return the cut space that an earlier run or another shard has written to `work`; None without it."""
    checkpoint = read_checkpoint(work / _CUT, key)
    if checkpoint is None:
        return None
    return _cut(space, spec, checkpoint.arrays, json.loads(checkpoint.metadata["text"]))


def cut_anew(space: Space, spec: FingerprintSpec, work: PurePath, key: str, progress: Progress) -> CutSpace:
    """Cut a space, and leave it in `work`."""
    progress.start("cut", n_cuts(space), "blocks")
    made = cut(space, spec, progress.advance)
    progress.finish()
    arrays = {
        "smiles": np.frombuffer("\n".join(made.smiles).encode(), np.uint8),
        **_of_csr("own", made.own),
    }
    arrays |= {"edge": made.edge, "reach": made.reach, "sums": made.sums}
    for r, slots in enumerate(made.entries):
        for s, slot in enumerate(slots):
            arrays |= {f"{r}/{s}/block": slot.block, f"{r}/{s}/synthon": slot.synthon}
    meta = {"reaches": made.reaches, "refused": [[slot.refused for slot in slots] for slots in made.entries]}
    _leave(work / _CUT, arrays, meta, key)
    return made


def without_differing(cut: CutSpace, progress: Progress) -> tuple[CutSpace, list[str]]:
    """Return a space without reactions whose products differ from RDKit's, and the differences in words."""
    progress.start("compare", len(cut.entries), "reactions")
    entries, refused = [], []
    for r, slots in enumerate(cut.entries):
        difference = compare(cut, r, COMPARED).difference if cut.sizes[r] else ""
        entries.append([] if difference else slots)
        if difference:
            refused.append(f"{cut.space.reactions[r].name} ({difference})")
        progress.advance(1)
    progress.finish()
    return _with_entries(cut, entries), refused


def left_out(cut: CutSpace) -> list[str]:
    """Return notes on how a space was read, and on reactions and blocks without products."""
    notes = list(cut.space.notes)
    out = [r.name for r, size in zip(cut.space.reactions, cut.sizes, strict=True) if not size]
    if out:
        names = ", ".join(out[:5]) + ", ..." * (len(out) > 5)
        notes.append(f"left out: {amount(len(out), 'reactions')} ({names}); `daskrf check-space` says why")
    blocks = sum(len(ids) for slots in cut.entries for slot in slots for ids in slot.refused.values())
    if blocks:
        notes.append(
            f"left out: {amount(blocks, 'blocks')} without a synthon in their slot; `daskrf check-space` "
            "says why"
        )
    return notes


def no_products(space: Space, refused: Sequence[str]) -> InputError:
    """Return the error about a space without products; `refused` are reactions that differ from RDKit's."""
    reasons = [reaction.refusal for reaction in space.reactions if reaction.refusal]
    why = refused[0] if refused else reasons[0] if reasons else "no block matches its slot"
    return InputError(f"{space.path} has no products: {why}. See `daskrf check-space {space.path}`.")


def families_once(
    cut: CutSpace, work: PurePath, key: str, check: Callable[[CutSpace], CutSpace], progress: Progress
) -> tuple[CutSpace, list[Family]]:
    """Return a space without the reactions that `check` leaves out, and its families.

    Both are read from `work` if they are there; else the space is checked and the families are made. Each
    family is kept until all are there, so that an interrupted run makes only those that it lacks.
    """
    path = work / _FAMILIES
    there = read_checkpoint(path, key)
    if there is not None:
        meta = json.loads(there.metadata["text"])
        entries = [slots if keep else [] for slots, keep in zip(cut.entries, meta["kept"], strict=True)]
        _forget_families(work, len(meta["families"]))  # a run may have been killed before it did
        return _with_entries(cut, entries), _families(there.arrays, meta["families"], cut.spec.n_columns)
    checked = check(cut)
    each = grouped(checked)
    if not each:  # nothing is left, so that the next search says why, too
        return checked, []
    sizes = [sum(len(slot.block) for r in reactions for slot in checked.entries[r]) for reactions in each]
    progress.start("families", sum(sizes), "entries of slots")
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    described = list[FamilyRecord]()
    for f, (reactions, size) in enumerate(zip(each, sizes, strict=True)):
        tell = _Shares(progress, size)
        of_family, record = _family(checked, reactions, work / f"{_FAMILIES}-{f}", key, tell)
        tell.finish()
        arrays |= {f"{f}/{name}": values for name, values in of_family.items()}
        described.append(record)
    progress.finish()
    meta = {"kept": [bool(slots) for slots in checked.entries], "families": described}
    _leave(path, arrays, meta, key)
    _forget_families(work, len(each))
    return checked, _families(arrays, described, cut.spec.n_columns)


def _forget_families(work: PurePath, n: int) -> None:
    """Delete the families that were kept until all were there."""
    for f in range(n):
        backend(work).remove(work / f"{_FAMILIES}-{f}")


def _family(
    cut: CutSpace, reactions: tuple[int, ...], path: PurePath, key: str, tell: Callable[[float], None]
) -> tuple[NamedArrays, FamilyRecord]:
    """Return the arrays of a family, and its record; both are read from `path`, or left there."""
    key = hash_of([key, reactions])
    if (there := read_checkpoint(path, key)) is not None:
        return there.arrays, json.loads(there.metadata["text"])
    made = family_of(cut, reactions, tell)
    arrays: dict[str, npt.NDArray[np.generic]] = {"groups": made.groups, "views": made.views}
    for s, side in enumerate(made.sides):
        arrays |= _of_csr(f"{s}/counts", side.counts)
        arrays |= {f"{s}/{name}": getattr(side, name) for name in _OF_SIDE}
    record: FamilyRecord = [*made.reactions], [*made.starts], [[*shape] for shape in made.shapes]
    _leave(path, arrays, record, key)
    return arrays, record


class _Shares:
    """Counts shares of a stage as units of its progress."""

    def __init__(self, progress: Progress, units: int) -> None:
        self._progress, self._units, self._share, self._done = progress, units, 0.0, 0

    def __call__(self, share: float) -> None:
        """Count one more share of all."""
        self._share += share
        self._advance(min(self._units, round(self._share * self._units)))

    def finish(self) -> None:
        """Count all that is left."""
        self._advance(self._units)

    def _advance(self, done: int) -> None:
        self._progress.advance(done - self._done)
        self._done = done


def composing_once(
    space: Space, spec: FingerprintSpec, run: Run, *, keep: bool = True
) -> tuple[CutSpace, list[Family], TablesPlace]:
    """Return a cut space without reactions whose products differ from RDKit's, its families, and their place.

    With `keep` their files stay beside the output, so that later searches with outputs in the same folder
    read them. Without, they are below the folder of unfinished work.

    Raises
    ------
    InputError
        If no products are left.
    """
    progress = run.progress
    place = TablesPlace.of(space, spec, run.output.parent / _FOLDER if keep else run.work)
    work, refused, is_there = as_path(place.folder), list[str](), True

    def check(cut: CutSpace) -> CutSpace:
        nonlocal is_there
        is_there = False
        composing, differing = without_differing(cut, progress)
        refused.extend(differing)
        return composing

    whole = kept_cut(space, spec, work, place.key)
    if whole is None:  # though the families may be there, if the file of the cut is damaged
        is_there, whole = False, cut_anew(space, spec, work, place.key, progress)
    cut, made = families_once(whole, work, place.key, check, progress)
    if not made:
        raise no_products(space, refused)
    if keep:
        words = f"tables of {space.path.name}, {work}"
        progress.note(
            f"{words}, are those of an earlier search" if is_there else f"{words}, stay for later searches"
        )
    return cut, made, place


def _with_entries(cut: CutSpace, entries: list[list[Entries]]) -> CutSpace:
    return replace(cut, entries=entries)


@functools.lru_cache(maxsize=1)
def search_tables(place: TablesPlace) -> SearchTables:
    """Read the tables of a search that `composing_once` has left, once per process."""
    folder = as_path(place.folder)
    cut, there = (read_checkpoint(folder / name, place.key) for name in (_CUT, _FAMILIES))
    if cut is None or there is None:
        raise StoreError(
            f"The tables of the space in {folder} are missing or damaged, or this worker cannot see them; "
            "run the same command again, with the output in a folder that all workers share."
        )
    meta = json.loads(there.metadata["text"])
    inner = _csr("own", cut.arrays, place.n_columns)
    families = _families(there.arrays, meta["families"], place.n_columns)
    return SearchTables(inner, cut.arrays["sums"], families)


def _leave(path: PurePath, arrays: NamedArrays, meta: object, key: str) -> None:
    backend(path.parent).make(path.parent)
    write_checkpoint(path, arrays, {"text": json.dumps(meta)}, key)


def _of_csr(name: str, matrix: sparse.csr_matrix) -> dict[str, npt.NDArray[np.generic]]:
    return {f"{name}/{array}": np.ascontiguousarray(getattr(matrix, array)) for array in _OF_CSR}


_OF_CSR = ("data", "indices", "indptr")


def _csr(name: str, arrays: NamedArrays, n_columns: int) -> sparse.csr_matrix:
    data, indices, indptr = (arrays[f"{name}/{array}"] for array in _OF_CSR)
    return sparse.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, n_columns))


def _cut(space: Space, spec: FingerprintSpec, arrays: NamedArrays, meta: JsonObject) -> CutSpace:
    entries = [
        [
            Entries(arrays[f"{r}/{s}/block"], arrays[f"{r}/{s}/synthon"], refused)
            for s, refused in enumerate(slots)
        ]
        for r, slots in enumerate(meta["refused"])
    ]
    reaches = [Reach(tuple(cuts), tuple(seen), shared) for cuts, seen, shared in meta["reaches"]]
    smiles = arrays["smiles"].tobytes().decode().split("\n")
    return CutSpace(
        space=space,
        spec=spec,
        smiles=smiles,
        own=_csr("own", arrays, spec.n_columns),
        edge=arrays["edge"],
        reaches=reaches,
        reach=arrays["reach"],
        sums=arrays["sums"],
        entries=entries,
    )


FamilyRecord: TypeAlias = tuple[list[int], list[int], list[list[int]]]
"""The reactions, starts and shapes of a `Family`."""


def _families(arrays: NamedArrays, described: Sequence[FamilyRecord], n_columns: int) -> list[Family]:
    families = []
    for f, (reactions, starts, shapes) in enumerate(described):
        sides = []
        for s in range(len(shapes[0])):
            synthon, reach, edge, overlap, places = (arrays[f"{f}/{s}/{name}"] for name in _OF_SIDE)
            counts = _csr(f"{f}/{s}/counts", arrays, n_columns)
            sides.append(Side(synthon, reach, edge, overlap, counts, places))
        ends = tuple(tuple(shape) for shape in shapes)
        families.append(
            Family(tuple(reactions), tuple(starts), ends, sides, arrays[f"{f}/groups"], arrays[f"{f}/views"])
        )
    return families

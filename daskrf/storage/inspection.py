"""Content, progress and integrity of a store."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath

from daskrf.documents import JsonObject
from daskrf.errors import StoreError, printable
from daskrf.files.backend import backend, is_file
from daskrf.files.disk import file_errors, work_folder
from daskrf.quantities import amount, format_bytes
from daskrf.storage.descriptions import fingerprint_words, kinds_of, kinds_words, map_words, words_of_model
from daskrf.storage.hits import Earlier, hits_at, record_of
from daskrf.storage.integrity import DAMAGE, as_damage
from daskrf.storage.keptrounds import problems_of_rounds
from daskrf.storage.kinds import kind_of
from daskrf.storage.model import load_model, read_arrays
from daskrf.storage.runlog import JobStatus, job_of
from daskrf.storage.stores.rowstore import RejectingStore
from daskrf.storage.stores.store import (
    KIND_COMMANDS,
    KIND_NAMES,
    PLAN_FILE,
    Store,
    total_counts,
)
from daskrf.storage.tablefiles import PARQUET, ending_of

_SHOWN = 2_000  # characters of a line at most, whatever a plan contains
REASON_PARTITIONS = 100
REJECT_FILES = 2_000  # files of rejects that are read at most, to keep `status` fast
_REMEDIES = {
    "fingerprints": "`daskrf verify --repair {}` makes just these again",
    "features": "`daskrf verify --repair {}` makes just these again",
    "predictions": "`daskrf verify --repair {}` takes these out, and then `daskrf predict` makes them again",
    "model": "delete {} and fit again",
    "rejects": "delete {} and the hits beside it, and run the same command again",
}
# Of other files.
_REMEDY = "delete {} and run the same command again; move it away instead if changes in it are yours"
_MOST_LISTED = 1_000  # outputs of a folder that are listed at most
STORES = ("fingerprints", "features", "predictions")  # kinds with partitions


@dataclass(frozen=True)
class StoreStatus:
    """Progress and content of a store; ``str()`` gives a readable summary.

    Attributes
    ----------
    path : Path
        Path of the store or model.
    kind : str
        ``"fingerprints"``, ``"features"``, ``"predictions"``, ``"model"``, ``"hits"``, or ``"rejects"``
        beside hits.
    words : tuple of str
        Description of the content: fingerprints, state of the map, targets.
    n_partitions, done : int
        Partitions planned and finished; a model, or an output without a plan yet, counts as one.
    missing : tuple of int
        Partitions never finished.
    damaged : dict of int to str
        Partitions with a damaged record or objects, and the reason (sizes are checked, digests are not).
    counts : dict of str to int
        Sums over the finished partitions: ``read``, ``kept``, ``rejected``, ``empty``, ``saturated``, ...
    bytes : int
        Size of the finished partitions on disk.
    reasons : dict of str to int
        Reasons for rejects in the first partitions that have any, most frequent first, with numbers replaced
        by #.
    provenance : dict
        Versions, host and time.
    notes : tuple of str
        Errors on reading the rejects; a partition with such an error counts as done until `verify` checks it.
        For hits, the remarks of `screen`.
    job : JobStatus or None
        Current runs and their progress, or how the last run ended; None if no run has left a log.
    """

    path: PurePath
    kind: str
    words: tuple[str, ...] = ()
    n_partitions: int = 1
    done: int = 1
    missing: tuple[int, ...] = ()
    damaged: dict[int, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    provenance: JsonObject = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    job: JobStatus | None = None

    @property
    def complete(self) -> bool:
        """Whether every partition is finished."""
        return self.done == self.n_partitions

    def __str__(self) -> str:
        running = self.job is not None and self.job.running
        state = "at work" if running else "complete" if self.complete else "unfinished"
        if self.damaged and self.kind not in STORES:
            state = "changed since it was written, or damaged"
        lines = [f"{self.path}: {KIND_NAMES.get(self.kind, self.kind)}, {state}"]
        lines += [f"  {words}" for words in self.words]
        if self.kind in STORES and (self.done or self.missing or self.damaged):
            lines.append(
                f"  partitions: {self.done:,} of {self.n_partitions:,} done, {len(self.missing):,} missing, "
                f"{len(self.damaged):,} damaged"
            )
        parts = {p: f"  partition {p}: " if self.kind in STORES else "" for p in self.damaged}
        lines += [f"  {parts[p]}{reason}" for p, reason in list(self.damaged.items())[:5]]
        lines += [f"  {note}" for note in self.notes[:5]]
        lines += self._row_lines()
        if self.provenance:
            made = (
                f"{key} {self.provenance[key]}"
                for key in ("daskrf", "created", "host")
                if key in self.provenance
            )
            lines.append(f"  made by {', '.join(made)}")
        lines += self.job.lines() if self.job is not None else []
        if not self.complete and not running and self.kind in KIND_COMMANDS:
            lines.append(f"  run `{KIND_COMMANDS[self.kind]}` again with the same options to finish it")
        return "\n".join(printable(line, _SHOWN) for line in lines)

    def _row_lines(self) -> list[str]:
        """Return the lines about rows, rejects and bytes."""
        counts, lines = self.counts, []
        if "read" in counts:
            lines.append(
                f"  rows: {counts['read']:,} read = {counts['kept']:,} kept + {counts['rejected']:,} rejected"
            )
        elif "kept" in counts:
            lines.append(f"  rows: {counts['kept']:,}")
        elif "rejected" in counts:
            lines.append(f"  rows rejected so far: {counts['rejected']:,}")
        lines += [f"    rejected {number:,}: {reason}" for reason, number in list(self.reasons.items())[:5]]
        if counts.get("empty"):
            lines.append(f"  molecules without any feature: {counts['empty']:,}")
        if counts.get("saturated"):
            lines.append(f"  counts above 65,535, stored as 65,535: {counts['saturated']:,}")
        if counts.get("marked"):
            lines.append(f"  molecules with enhanced stereo groups: {counts['marked']:,}")
        each = f", {self.bytes / counts['kept']:,.0f} bytes a molecule" if counts.get("kept") else ""
        each += " with ID and SMILES" if each and self.kind in ("fingerprints", "features") else ""
        if self.bytes or self.done:
            lines.append(f"  on disk: {format_bytes(self.bytes)}{each}")
        return lines

    def to_json(self) -> str:
        """Return all attributes as JSON."""
        return json.dumps(asdict(self), default=str)


@dataclass(frozen=True)
class VerifyReport:
    """Result of a check of every digest; ``str()`` gives a readable summary.

    Attributes
    ----------
    path : Path
        Path of the store or model.
    checked : int
        Number of partitions checked; a model counts as one.
    damaged : dict of int to list of str
        Problems of each damaged partition.
    missing : tuple of int
        Partitions never finished, which cannot be checked.
    kind : str
        See `StoreStatus`; it determines how damage can be repaired.
    """

    path: PurePath
    checked: int
    damaged: dict[int, list[str]]
    missing: tuple[int, ...] = ()
    kind: str = "fingerprints"

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damaged

    def __str__(self) -> str:
        checked = amount(self.checked, "partitions")
        if self.kind not in STORES:
            state = "every digest is right" if self.sound else "damaged"
            lines = [f"{self.path}: {KIND_NAMES[self.kind]}, {state}"]
            lines += [f"  {problem}" for problem in self.damaged.get(0, ())[:20]]
            lines += [] if self.sound else [f"  {remedy(self.kind, self.path)}"]
        elif self.sound:
            lines = [f"{self.path}: every digest of {checked} is right"]
        else:
            lines = [f"{self.path}: {len(self.damaged):,} of {checked} damaged"]
            for p, problems in list(self.damaged.items())[:20]:
                lines += [f"  partition {p}: {problem}" for problem in problems[:3]]
            lines.append(f"  {remedy(self.kind, self.path)}")
        if self.missing:
            lines.append(f"  not finished yet: {amount(len(self.missing), 'partitions')}")
        return "\n".join(printable(line, _SHOWN) for line in lines)


@dataclass(frozen=True)
class FolderStatus:
    """The outputs in a folder; ``str()`` gives a line for each.

    Attributes
    ----------
    path : Path
    outputs : tuple of StoreStatus
        Stores, models and files that commands have written, or are writing, by name.
    unread : tuple of (str, str)
        Names of outputs that cannot be read, and why.
    others : int
        Files and folders that daskrf has not written.
    """

    path: PurePath
    outputs: tuple[StoreStatus, ...]
    unread: tuple[tuple[str, str], ...] = ()
    others: int = 0

    def __str__(self) -> str:
        lines = [f"{self.path}: a folder with {amount(len(self.outputs), 'outputs')} of daskrf"]
        for output in self.outputs:
            first, *rest = str(output).splitlines()
            content = f": {rest[0].strip()}" if output.words and rest else ""
            lines.append(f"  {output.path.name}{first.removeprefix(str(output.path))}{content}")
        lines += [f"  {name}: {why}" for name, why in self.unread]
        if self.others:
            what = "other file or folder" if self.others == 1 else "other files and folders"
            lines.append(f"  and {self.others:,} {what}")
        return "\n".join(printable(line, _SHOWN) for line in lines)

    def to_json(self) -> str:
        """Return all attributes as JSON."""
        return json.dumps(asdict(self), default=str)


def remedy(kind: str, path: PurePath) -> str:
    """Return what to do about a damaged output."""
    return _REMEDIES.get(kind, _REMEDY).format(path)


def status(path: PurePath) -> StoreStatus | FolderStatus:
    """Return the status of an output, finished or not, or of a folder of outputs.

    It is read from records, sizes and run logs.

    Digests are not checked; `verify` does that.

    Parameters
    ----------
    path : path
        Its directory.

    Returns
    -------
    StoreStatus, or FolderStatus for a folder that is no output itself

    Raises
    ------
    StoreError
        Nothing is there, or it is of an unknown format version.
    """
    return _folder_status(path) if _is_plain_folder(path) else _status(path)


def _is_plain_folder(path: PurePath) -> bool:
    """Return whether a path is a folder of any files, and no output."""
    with file_errors("read", path):
        return (
            not is_file(path)
            and bool(backend(path).names(path))
            and kind_of(path, missing_ok=True) is None
            and job_of(path) is None
        )


def _folder_status(path: PurePath) -> FolderStatus:
    """Return the status of a folder."""
    with file_errors("read", path):
        names = backend(path).names(path)
    logs = {name.removesuffix(".log") for name in names if name.endswith(".log")}
    outputs: list[StoreStatus] = []
    unread: list[tuple[str, str]] = []
    others = 0
    for name in sorted({*names, *logs}):
        if name.startswith(".") or (name.endswith(".log") and job_of(path / name[:-4]) is not None):
            continue
        try:
            if not _is_output(path / name):
                others += name in names
            elif len(outputs) < _MOST_LISTED:
                outputs.append(_status(path / name))
        except StoreError as error:
            unread.append((name, str(error)))
    return FolderStatus(path, tuple(outputs), tuple(unread), others)


def _is_output(path: PurePath) -> bool:
    """Return whether a command has written something at a path, or is about to."""
    if is_file(path):
        return hits_at(path) is not None
    return kind_of(path, missing_ok=True) is not None or job_of(path) is not None


def _status(path: PurePath) -> StoreStatus:
    """Return the status of one output."""
    job = job_of(path)
    if (hits := _hits_at(path)) is not None:
        size = backend(path).size(path) or 0
        with as_damage(path):
            words, notes = hits.words(), tuple(hits.about.get("notes", ()))
        written = size if hits.file is None else hits.file["bytes"]
        why = f"{written:,} bytes were written, and there are {size:,}"
        if written < 0:
            why = f"its record, {record_of(path).name}, is damaged"
        changed = {} if size == written else {0: why}
        return StoreStatus(
            path, hits.kind, words, done=int(not changed), damaged=changed, bytes=size, notes=notes, job=job
        )
    if job is not None and kind_of(path, missing_ok=True) is None:
        return _unplanned_status(path, job)
    return replace(_model_status(path) if kind_of(path) == "model" else _store_status(path), job=job)


def _hits_at(path: PurePath) -> Earlier | None:
    """Return the hits in a file, or None if the path is not a file; refuse a file of another kind."""
    with file_errors("read", path):
        if not is_file(path):
            return None
        hits = hits_at(path)
    if hits is None:
        raise StoreError(
            f"{path} was not written by daskrf, or is damaged; give a store, a model, or what a command wrote"
            + ("" if ending_of(path) == PARQUET else f" together with its record, {record_of(path).name}")
        )
    return hits


def _unplanned_status(path: PurePath, job: JobStatus) -> StoreStatus:
    """Return the status of an output without a plan, because its inputs are still being scanned."""
    kind = {
        "fingerprint": "fingerprints",
        "featurize": "features",
        "predict": "predictions",
        "fit": "model",
        "add": "model",
        "build-space": "space",
    }
    size = backend(path).size(path)
    rejected = _rejected_on_the_way(work_folder(path))
    counts = {"rejected": rejected} if rejected else {}
    made = kind.get(job.runs[0].command, "hits")
    if made == "space" and (names := backend(path).names(path)):  # its folder appears with all of its tables
        size = sum(backend(path).size(path / name) or 0 for name in names)
    return StoreStatus(path, made, done=int(size is not None), counts=counts, bytes=size or 0, job=job)


def _rejected_on_the_way(work: PurePath) -> int:
    """Return how many rows a pass over SMILES files has rejected so far, from its records of rejects."""
    rows = 0
    for name in backend(work).names(work / "rejects")[:REJECT_FILES]:
        with suppress(StoreError, *DAMAGE):  # it was just deleted, or is being written
            rows += read_arrays(work / "rejects" / name, "checkpoint", ()).metadata["meta"]["rows"]
    return rows


def _store_status(path: PurePath) -> StoreStatus:
    """Return the status of a partitioned store."""
    store = Store.open(path)
    survey = store.survey()
    reasons, notes = _reasons(
        path, [p for p, record in survey.valid.items() if record.counts.get("rejected")]
    )
    return StoreStatus(
        path=path,
        kind=store.kind,
        words=_store_words(store),
        n_partitions=store.n_partitions,
        done=len(survey.valid),
        missing=tuple(survey.missing),
        damaged=survey.damaged,
        counts=total_counts(survey.valid.values()),
        bytes=sum(record.bytes for record in survey.valid.values()),
        reasons=reasons,
        provenance=store.provenance,
        notes=tuple(notes),
    )


def _store_words(store: Store) -> tuple[str, ...]:
    """Describe the content of a partitioned store."""
    spec = store.spec
    with as_damage(store.path / PLAN_FILE):
        if store.kind == "fingerprints":
            state = spec.get("fingerprint", {})
            *more, last = map(fingerprint_words, kinds_of(state))
            last = f"{last}; RDKit {spec.get('rdkit')}; fragments: {spec.get('fragments')}"
            # Of several kinds the first line names all: in a list of outputs it stands for the store.
            return (kinds_words(state), *more, last) if more else (last,)
        if store.kind == "features":
            return (map_words(spec.get("map", {}), spec.get("dtype")), _source_words(store))
        model = store.provenance.get("model_path") or f"with hash {spec['model'][:12]}"
        std = store.spec["options"].get("std")
        kinds = {True: ("means and standard deviations",), False: ("means only",)}.get(std, ())
        return (f"predictions of the model {model}", *kinds, _source_words(store))


def _source_words(store: Store) -> str:
    origin = store.provenance.get("source_path") or f"the store with spec hash {store.spec['source'][:12]}"
    return f"rows of {origin}"


def _reasons(path: PurePath, partitions: list[int]) -> tuple[dict[str, int], list[str]]:
    """Return the reasons for rejects in the first partitions that have any, and errors on reading them."""
    counts: Counter[str] = Counter()
    notes = []
    if partitions:
        store = RejectingStore.open(path)
        for p in partitions[:REASON_PARTITIONS]:
            try:
                reasons = store.read_rejects(p)["reason"].to_pylist()
            except StoreError as error:
                notes.append(f"the rejects cannot be read: {error}")
                continue
            # Numbers are replaced, or each position in a SMILES would make a separate reason.
            counts.update(re.sub(r"\d+", "#", reason) for reason in reasons)
    return dict(counts.most_common()), notes


def _model_status(path: PurePath) -> StoreStatus:
    """Return the status of a model, from its record only."""
    saved = load_model(path, ())
    with as_damage(path):
        words = words_of_model(saved.of_model)
    return StoreStatus(path, "model", tuple(words), bytes=saved.bytes, provenance=saved.provenance)


def verify(
    path: PurePath,
    partitions: Iterable[int] | None = None,
    on_partition: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Check every digest of a store, model or hits, without changing anything.

    Parameters
    ----------
    path : path
        Its directory.
    partitions : iterable of int, optional
        Only these partitions; by default all of them.
    on_partition : callable, optional
        Called with the number of each partition once it has been checked, in ascending order; a missing one
        takes no time, and a model or hits count as partition 0.

    Returns
    -------
    VerifyReport

    Raises
    ------
    StoreError
        Nothing is there, or it is of an unknown format version.
    """
    looked_at = on_partition or (lambda p: None)
    if (hits := _hits_at(path)) is not None:
        problems = hits.problems()
        looked_at(0)
        return VerifyReport(path, 1, {0: problems} if problems else {}, kind=hits.kind)
    if kind_of(path) == "model":
        report = VerifyReport(path, 1, _model_problems(path), kind="model")
        looked_at(0)
        return report
    store = Store.open(path)
    absent = set(store.survey().missing)
    missing, damaged, checked = [], {}, 0
    for p in range(store.n_partitions) if partitions is None else sorted(set(partitions)):
        if p in absent:
            missing.append(p)
        else:
            checked += 1
            if problems := store.verify(p):
                damaged[p] = problems
        looked_at(p)
    return VerifyReport(path, checked, damaged, tuple(missing), store.kind)


def _model_problems(path: PurePath) -> dict[int, list[str]]:
    """Check the record of a model and every digest in it."""
    try:
        with file_errors("read", path):
            problems = [*load_model(path, ()).problems(path), *problems_of_rounds(path)]
    except StoreError as error:
        problems = [str(error)]
    return {0: problems} if problems else {}

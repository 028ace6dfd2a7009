"""Content, progress and integrity of a store."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any

from daskrf.errors import InputError, StoreError, printable
from daskrf.features.featuremap import feature_bytes, from_state, parameter_words
from daskrf.files.backend import as_path, backend, is_file
from daskrf.files.disk import file_errors, work_folder
from daskrf.kernels.kernel import from_state as kernel_from_state
from daskrf.kernels.kernel import short
from daskrf.molecules.spec import FingerprintSpec
from daskrf.molecules.values import scales_in
from daskrf.quantities import amount, format_bytes
from daskrf.storage.hits import Earlier, hits_at, record_of
from daskrf.storage.integrity import DAMAGE, believed
from daskrf.storage.keptrounds import kept_rounds, problems_of_rounds
from daskrf.storage.model import check_numbers, is_group, load_model, read_arrays
from daskrf.storage.rowstore import RejectingStore
from daskrf.storage.runlog import JobStatus, job_of
from daskrf.storage.store import (
    ARRAYS_FILE,
    KIND_COMMANDS,
    KIND_NAMES,
    PLAN_FILE,
    Store,
    has_plan,
    read_plan,
    total_counts,
)
from daskrf.storage.tablefiles import PARQUET, ending_of

__all__ = [
    "FolderStatus",
    "StoreStatus",
    "VerifyReport",
    "check_output",
    "fingerprint_words",
    "kind_of",
    "kinds_words",
    "map_words",
    "model_words",
    "remedy",
    "status",
    "verify",
    "words_of_model",
]

_ROUNDS = 12  # of a model, shown at most
_SHOWN = 2_000  # characters of a line at most, whatever a plan contains
REASON_PARTITIONS = 100
REJECT_FILES = 2_000  # read at most, so that a status is quick
_REMEDIES = {
    "fingerprints": "`daskrf verify --repair {}` makes just these again",
    "features": "`daskrf verify --repair {}` makes just these again",
    "predictions": "`daskrf verify --repair {}` takes these out, and then `daskrf predict` makes them again",
    "model": "delete {} and fit again",
    "rejects": "delete {} and the hits beside it, and run the same command again",
}
# Of other files.
_REMEDY = "delete {} and run the same command again; move it away instead if changes in it are yours"
_MOST_LISTED = 1_000  # outputs in a folder
STORES = ("fingerprints", "features", "predictions")  # kinds with partitions

_FINGERPRINTS = {
    "morgan": "Morgan (circular)",
    "atompair": "atom-pair",
    "torsion": "topological-torsion",
    "rdkit": "RDKit path",
    "lingo": "LINGO (windows of four characters of SMILES)",
}


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
        Partitions planned and finished; a model counts as one, as does anything not planned yet.
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
        Errors on reading the rejects; such a partition counts as done until `verify` checks it. For hits,
        the remarks of `screen`.
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
    provenance: dict[str, Any] = field(default_factory=dict)
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
            said = f": {rest[0].strip()}" if output.words and rest else ""
            lines.append(f"  {output.path.name}{first.removeprefix(str(output.path))}{said}")
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


def kind_of(path: str | os.PathLike[str], missing_ok: bool = False) -> str | None:
    """Return the kind of the store or model at a path.

    Parameters
    ----------
    path : path
        Its directory.
    missing_ok : bool
        Return None if there is neither, instead of raising.

    Returns
    -------
    str or None

    Raises
    ------
    StoreError
        Nothing is there, the plan is damaged, or the format version is unknown.
    """
    path = as_path(path)
    with file_errors("read", path):
        if is_file(path / ARRAYS_FILE):
            return "model"
        if missing_ok and not has_plan(path):
            return None
    return str(read_plan(path)["kind"])


def check_output(path: PurePath, kind: str) -> None:
    """Raise an error if the path of an output of some kind holds something else, before any input is read.

    Raises
    ------
    StoreError
    """
    name = KIND_NAMES[kind]
    with file_errors("read", path):
        if is_file(path):
            raise StoreError(f"{path} is a file, and {name} is a directory; give another output path")
        others = [name for name in backend(path).names(path) if not name.startswith(".")]
    found = kind_of(path, missing_ok=True)
    if found is not None and found != kind:
        there = KIND_NAMES.get(found, "another store")
        raise StoreError(f"{path} is {there} already; give another output path, or delete that one")
    if kind == "model":  # a crash may have left arrays of a model, and records of its rounds
        kept = kept_rounds(path).values()
        others = [name for name in others if not is_group(name) and name not in kept]
    if found is None and others:
        what = "model" if kind == "model" else "store"
        raise StoreError(f"{path} holds other files and is not a daskrf {what}; give another output path")


def status(path: str | os.PathLike[str]) -> StoreStatus | FolderStatus:
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
    path = as_path(path)
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
        with believed(path):
            words, notes = hits.words(), tuple(hits.about.get("notes", ()))
        known = size if hits.file is None else hits.file["bytes"]
        why = f"{known:,} bytes were written, and there are {size:,}"
        if known < 0:
            why = f"its record, {record_of(path).name}, is damaged"
        changed = {} if size == known else {0: why}
        return StoreStatus(
            path, hits.kind, words, done=int(not changed), damaged=changed, bytes=size, notes=notes, job=job
        )
    if job is not None and kind_of(path, missing_ok=True) is None:
        return _unplanned_status(path, job)
    return replace(_model_status(path) if kind_of(path) == "model" else _store_status(path), job=job)


def _hits_at(path: PurePath) -> Earlier | None:
    """Return the hits that a file holds, or None if the path is not a file.

    Raises
    ------
    StoreError
        If the file does not hold hits.
    """
    with file_errors("read", path):
        if not is_file(path):
            return None
        found = hits_at(path)
    if found is None:
        raise StoreError(
            f"{path} was not written by daskrf, or is damaged; give a store, a model, or what a command wrote"
            + ("" if ending_of(path) == PARQUET else f" together with its record, {record_of(path).name}")
        )
    return found


def _unplanned_status(path: PurePath, job: JobStatus) -> StoreStatus:
    """Return the status of an output without a plan, because its inputs are still being scanned."""
    kind = {
        "fingerprint": "fingerprints",
        "featurize": "features",
        "predict": "predictions",
        "fit": "model",
        "add": "model",
    }
    size = backend(path).size(path)
    rejected = _rejected_on_the_way(work_folder(path))
    counts = {"rejected": rejected} if rejected else {}
    made = kind.get(job.runs[0].command, "hits")
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
    with believed(store.path / PLAN_FILE):
        if store.kind == "fingerprints":
            *more, words = map(fingerprint_words, kinds_of(spec.get("fingerprint", {})))
            return (*more, f"{words}; RDKit {spec.get('rdkit')}; fragments: {spec.get('fragments')}")
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
    found: Counter[str] = Counter()
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
            found.update(re.sub(r"\d+", "#", reason) for reason in reasons)
    return dict(found.most_common()), notes


def _model_status(path: PurePath) -> StoreStatus:
    """Return the status of a model, from its record only."""
    found = load_model(path, ())
    with believed(path):
        words = words_of_model(found.metadata)
    return StoreStatus(path, "model", tuple(words), bytes=found.bytes, provenance=found.provenance)


def words_of_model(metadata: dict[str, Any]) -> list[str]:
    """Describe the content of a model by its metadata."""
    words = []
    check_numbers(metadata.get("gp", {}))
    if metadata.get("map") is not None:
        words.append(map_words(metadata["map"]))
    if (model := model_words(metadata.get("gp", {}))) is not None:
        words.append(model)
    if metadata.get("targets"):
        directions = dict(metadata.get("directions", {}))
        targets = (f"{t} ({directions[t]})" if t in directions else str(t) for t in metadata["targets"])
        words.append(f"targets: {', '.join(targets)}")
    words += [scale.words() for scale in scales_in(metadata) if scale.known]
    toolkit = metadata.get("toolkit")
    counted = toolkit.get("rdkit") if isinstance(toolkit, dict) else ""
    words.append(f"molecules counted by RDKit {counted or 'of an unknown version'}")
    if isinstance(metadata.get("labels"), dict):
        own = {key: value for key, value in metadata["labels"].items() if value or key == "matched"}
        counts = (f"{value:,} {key.replace('_', ' ')}" for key, value in own.items())
        words.append(f"labels: {', '.join(counts)}")
    words += _round_words(metadata.get("rounds", []), metadata.get("targets", []))
    if metadata.get("spec_hash"):
        words.append(f"hash: {metadata['spec_hash'][:12]}")
    return words + _choice_words(metadata.get("choices") or [], metadata.get("targets") or [])


def _choice_words(choices: Sequence[str | None], targets: Sequence[str]) -> list[str]:
    """Return the kernels that were compared for each target of an exact process, a line each."""
    lines: list[str] = []
    for choice, target in zip(choices, targets, strict=False):
        if choice:
            head, *rest = choice.splitlines()
            lines += [f"{target}: {head}" if len(choices) > 1 else head, *rest]
    return lines


def _round_words(rounds: list[dict[str, Any]], targets: list[str]) -> list[str]:
    """Describe the last rounds of labels that `daskrf add` has brought, a line each."""
    words = []
    for number, each in list(enumerate(rounds, 1))[-_ROUNDS:]:
        parts = [f"round {number}: {each['labels']:,} labels" + (" (fit)" if number == 1 else "")]
        agreements = each.get("agreement") or [None] * len(targets)
        for name, best, found in zip(targets, each["best"], agreements, strict=False):
            own = [f"best so far {best:.6g}"] if best is not None else []
            if found is not None:
                own.append(f"{found['within_95']:.0%} within 95 % intervals, mean z^2 {found['mean_z2']:.2f}")
            parts += [f"{name} {text}" if len(targets) > 1 else text for text in own]
        words.append(", ".join(parts))
    return words


def verify(
    path: str | os.PathLike[str],
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
    path = as_path(path)
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


def fingerprint_words(state: dict[str, Any]) -> str:
    """Describe a fingerprint specification of one kind in words.

    Examples
    --------
    >>> fingerprint_words({"kind": "morgan", "radius": 1, "counts": True, "size": 0})
    'Morgan (circular) fingerprints of radius 1, counts, unfolded (32-bit identifiers)'
    >>> fingerprint_words({"kind": "atompair:4", "counts": True, "size": 512})
    'atom-pair fingerprints up to 4 bonds apart, counts, folded to 512 columns'
    """
    kind, _, distance = str(state.get("kind", "unknown")).partition(":")
    words = f"{_FINGERPRINTS.get(kind, kind)} fingerprints"
    words += f" up to {amount(int(distance), 'bonds')} apart" if distance.isdecimal() else ""
    if kind == "morgan":
        words += f" of radius {state.get('radius')}"
    words += _options_words(state)
    words += ", pharmacophoric atom classes" if state.get("features") else ""
    start, stop = state.get("columns", (0, 0))
    return words + (f", columns {start:,} to {stop - 1:,}" if stop else "")


def kinds_words(state: dict[str, Any]) -> str:
    """Name the kinds of a specification, as --kind takes them, and what all of them have in common.

    Examples
    --------
    >>> from daskrf.molecules import FingerprintSpec
    >>> kinds_words(FingerprintSpec(["morgan:2", "torsion"], size=512).state())
    'morgan:2 + torsion, counts, folded to 512 columns'
    """
    return FingerprintSpec.from_state(state).name + _options_words(kinds_of(state)[0])


def _options_words(state: dict[str, Any]) -> str:
    """Describe the options that are the same for all kinds."""
    words = ", counts" if state.get("counts") else ", presence only"
    size = state.get("size")
    words += f", folded to {size:,} columns" if size else ", unfolded (32-bit identifiers)"
    return words + (", with chirality" if state.get("chirality") else "")


def kinds_of(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the specification of each kind of fingerprint in a combined specification.

    Examples
    --------
    >>> kinds_of({"kind": "torsion"})
    [{'kind': 'torsion'}]
    """
    return state.get("kinds") or [state]


def _kernel_words(state: dict[str, Any]) -> str:
    try:
        return kernel_from_state(state).words()
    except (InputError, *DAMAGE):
        return f"an unknown kernel ({short(state)})"


def map_words(state: dict[str, Any], dtype: str | None = None) -> str:
    """Describe the state of a feature map in words.

    Parameters
    ----------
    state : dict
        ``FeatureMap.state()``.
    dtype : str, optional
        Type of the stored features; if given, the bytes per molecule are added.

    Returns
    -------
    str

    Examples
    --------
    >>> from daskrf.features import default_map
    >>> state = default_map().set_params(n_components=64).state()
    >>> map_words(state)
    'one-bit Tanimoto (min-max) features, M = 64, seed 0: unbiased, variance (1 - T^2)/M'
    >>> map_words(state, "bits").split(", ")[-1]
    '8 bytes a molecule'
    """
    try:
        try:
            words = from_state(state).words()
        except InputError:  # a map unknown to this version
            words = parameter_words(str(state.get("class", "unknown")), state.get("parameters", {}))
        n = state.get("parameters", {}).get("n_components")
        if dtype is None or not isinstance(n, int):
            return words
        return f"{words}, {feature_bytes(n, dtype):,} bytes a molecule"
    except DAMAGE:  # a store not written by daskrf
        return f"an unknown feature map ({short(state)})"


def model_words(state: dict[str, Any]) -> str | None:
    """Describe the model-specific options in a model's state in words; return None if it has none.

    Examples
    --------
    >>> model_words({"class": "LocalGaussianGP", "rows": "nearest", "residual": True})
    'a posterior about each centroid (LocalGaussianGP): rows nearest, residual'
    >>> model_words({"class": "SparseGP", "criterion": "bound"})
    'a sparse Gaussian process (SparseGP): criterion bound'
    >>> model_words({"class": "SeparateGP", "parts": [{"class": "RandomFeatureGP"}] * 2})
    '2 models in one, of targets that have gaps (SeparateGP)'
    """
    if state.get("class") == "LocalGaussianGP":
        residual = "residual" if state.get("residual") else "no residual"
        return f"a posterior about each centroid (LocalGaussianGP): rows {state.get('rows')}, {residual}"
    if state.get("class") == "SparseGP":
        return f"a sparse Gaussian process (SparseGP): criterion {state.get('criterion')}"
    if state.get("class") == "ExactGP":
        return f"an exact Gaussian process with {_kernel_words(state.get('kernel', {}))}"
    if state.get("class") == "SeparateGP":
        parts = state.get("parts") or [{}]
        kind = model_words(parts[0])
        each = f", each {kind}" if kind else ""
        if parts[0].get("class") == "ExactGP":
            return f"{len(parts)} models in one, of a target each (SeparateGP){each}"
        return f"{len(parts)} models in one, of targets that have gaps (SeparateGP){each}"
    return None

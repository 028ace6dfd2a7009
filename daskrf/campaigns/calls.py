"""A batch is scored: calls of the scorer run on the workers, and each leaves its result in a folder.

A folder `call-0003` is complete: it was renamed when its result had been written. So a run that was killed
goes on with the molecules that stand in no such folder, and no molecule that has a result is scored again.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from distributed import Client

from daskrf.campaigns.scorer import Ending, Scorer
from daskrf.campaigns.scores import NO_SCORE, CallScores, read_scores
from daskrf.errors import InputError, NoLabelsError
from daskrf.files.disk import file_errors, sync_directory
from daskrf.quantities import amount
from daskrf.storage.integrity import read_sealed, write_sealed
from daskrf.workers.calls import check_stop
from daskrf.workers.execution import Task, run_tasks
from daskrf.workers.progress import Progress

RESULT, OUTPUT, MOLECULES, WRITTEN = "result.json", "output.txt", "molecules.smi", "scores"
_UNFINISHED = ".unfinished-"
_HOPELESS = 5  # calls that fail before any gives a score: then the scorer is at fault, not the molecules


@dataclass(frozen=True)
class Molecule:
    """A molecule to score: its name for the scorer, which has no blanks and no other molecule has."""

    name: str
    smiles: str


@dataclass(frozen=True)
class ScoringCall:
    """One call of the scorer.

    Attributes
    ----------
    folder : str
        Where its files will be when it is complete.
    molecules : tuple of Molecule
    scorer : Scorer
    target : str, int or None
    maximize : bool
    """

    folder: str
    molecules: tuple[Molecule, ...]
    scorer: Scorer
    target: str | int | None
    maximize: bool


class CallResult(TypedDict):
    """What a complete call leaves: its molecules, the scores, and why others have none.

    `unread` counts rows without a number, and `no_numbers` shows some if that is all that was written.
    """

    molecules: list[str]
    scores: dict[str, float]
    reason: str
    repeated: int
    others: int
    words: str
    unread: NotRequired[int]
    no_numbers: NotRequired[str]


@dataclass(frozen=True)
class Failure:
    """A call that gave no score: where its files are, why, and whether it ended as it should."""

    folder: str
    reason: str
    ended: bool = False


@dataclass(frozen=True)
class Scored:
    """What is known of the molecules of a batch.

    Attributes
    ----------
    scores : dict of str to float
        By name.
    failures : dict of str to str
        Why the other molecules have no score.
    notes : tuple of str
        How scores were read, and what was counted.
    """

    scores: Mapping[str, float]
    failures: Mapping[str, str]
    notes: tuple[str, ...]


def score_batch(
    folder: Path,
    molecules: Sequence[Molecule],
    scorer: Scorer,
    *,
    per_call: int | None,
    target: str | int | None,
    maximize: bool,
    client: Client | None,
    progress: Progress,
    first: bool = True,
    accept_failures: bool = False,
) -> Scored:
    """Score molecules, but for those whose results are in the folder already.

    Parameters
    ----------
    folder : Path
        Of the calls of this batch; its parent exists.
    molecules : sequence of Molecule
    scorer : Scorer
    per_call : int or None
        Molecules of a call; None: all that have no result yet.
    target : str, int or None
        Column of the scores.
    maximize : bool
    client, progress
        As for `daskrf.workers.execution.run_tasks`.
    first : bool
        Whether there are no scores of earlier batches, so that there must be some of this one.
    accept_failures : bool
        Take molecules as failed even if no call of the batch gives a score.

    Raises
    ------
    InputError
        If no call gives a score, and some did not end as they should. Its molecules are scored again then.
    """
    with file_errors("write", folder):
        folder.mkdir(exist_ok=True)
        _sweep(folder)
    folder = folder.absolute()  # the scorer runs in the folder of the settings, and workers run anywhere
    done = list(_results(folder))
    finished = {name for result in done for name in result["molecules"]}
    left = [molecule for molecule in molecules if molecule.name not in finished]
    size = per_call or max(1, len(left))
    calls = {
        str(number): ScoringCall(
            folder=str(folder / f"call-{number:04d}"),
            molecules=tuple(left[at : at + size]),
            scorer=scorer,
            target=target,
            maximize=maximize,
        )
        for number, at in enumerate(range(0, len(left), size), _next_number(folder))
    }
    succeeded = any(result["scores"] for result in done)
    failed: list[tuple[ScoringCall, Failure]] = []
    progress.start("score", len(molecules), "molecules", len(molecules) - len(left))
    tasks = [Task(f"score-{number}-{time.time_ns()}", (call,), 0) for number, call in calls.items()]
    for task, failure in run_tasks(score_call, tasks, client, progress):
        (call,) = task.arguments
        progress.advance(len(call.molecules))
        if failure is None:
            succeeded = True
        else:
            failed.append((call, failure))
        if succeeded:
            while failed:
                call, failure = failed.pop()
                _commit(Path(failure.folder), Path(call.folder))
        elif sum(not each.ended for _, each in failed) >= _HOPELESS and not accept_failures:
            break
    progress.finish()
    broken = [each for each in failed if not each[1].ended]
    if failed and (first or (broken and not accept_failures)):
        _refuse(broken or failed, first=first)
    for call, failure in failed:
        _commit(Path(failure.folder), Path(call.folder))
    return _whole(folder, molecules)


def score_call(call: ScoringCall) -> Failure | None:
    """Call the scorer, and leave the result in the folder of the call unless there is no score.

    A scorer that somebody else ended, such as the kernel for want of memory, says nothing of the molecules:
    it is called once more.
    """
    final = Path(call.folder)
    if (final / RESULT).exists():  # by a worker that was thought to be lost
        return None
    folder, ending = _run(call, final)
    if ending.is_killed:
        shutil.rmtree(folder, ignore_errors=True)
        folder, ending = _run(call, final)
    reason = ending.reason
    read, ended, no_numbers = CallScores(), not reason, ""
    if ended:
        try:
            molecules = {each.name: each.smiles for each in call.molecules}
            read = read_scores(folder / WRITTEN, molecules, target=call.target, maximize=call.maximize)
            no_numbers = read.no_numbers
        except InputError as error:
            reason, ended = str(error).removesuffix("."), isinstance(error, NoLabelsError)
            no_numbers = error.cells if isinstance(error, NoLabelsError) else ""
    result: CallResult = {
        "molecules": [each.name for each in call.molecules],
        "scores": dict(read.scores),
        "reason": "" if ended else _in(final, folder, reason),
        "repeated": read.repeated,
        "others": read.others,
        "words": _in(final, folder, read.words),
    }
    if read.unread:
        result["unread"] = read.unread
    if no_numbers:
        result["no_numbers"] = no_numbers
    write_sealed(folder / RESULT, result)
    if not read.scores:
        return Failure(str(folder), reason, ended)
    _commit(folder, final)
    return None


def _in(final: Path, folder: Path, words: str) -> str:
    """Return words on a file in a folder that gets its final name."""
    return words.replace(f"{folder.name}{os.sep}", f"{final.name}{os.sep}")


def _run(call: ScoringCall, final: Path) -> tuple[Path, Ending]:
    """Call the scorer in a new folder beside the final one; return the folder, and how the scorer ended."""
    folder = final.with_name(f"{final.name}{_UNFINISHED}{uuid.uuid4().hex[:8]}")
    with file_errors("write", folder):
        folder.mkdir()
        smiles = folder / MOLECULES
        smiles.write_text("".join(f"{each.smiles} {each.name}\n" for each in call.molecules))
    command = call.scorer.command(str(smiles), str(folder / WRITTEN), str(folder))
    return folder, call.scorer.run(command, os.getpid(), folder / OUTPUT, check_stop)


def _commit(folder: Path, final: Path) -> None:
    """Give a folder with a result its final name, unless another call of the same molecules was faster."""
    with file_errors("write", final):
        with suppress(FileExistsError, NotADirectoryError):
            try:
                folder.rename(final)
            except OSError:
                if not (final / RESULT).exists():
                    raise
                shutil.rmtree(folder, ignore_errors=True)
        sync_directory(final.parent)


def _sweep(folder: Path) -> None:
    """Delete what calls have left that did not end."""
    for path in folder.glob(f"*{_UNFINISHED}*"):
        shutil.rmtree(path, ignore_errors=True)


def _next_number(folder: Path) -> int:
    """Return the number of the first new call."""
    numbers = [int(path.name.removeprefix("call-")) for path in _complete(folder)]
    return max(numbers, default=0) + 1


def _complete(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("call-*") if path.name.removeprefix("call-").isdecimal())


def _results(folder: Path) -> Iterator[CallResult]:
    """Yield the results of complete calls."""
    for path in _complete(folder):
        again = f"delete the folder {path}, and run the same command again, to score its molecules again"
        yield cast(CallResult, read_sealed(path / RESULT, again))


def _refuse(failed: Sequence[tuple[ScoringCall, Failure]], *, first: bool) -> None:
    """Raise, as no call gave a score."""
    _, failure = failed[0]
    n = sum(len(call.molecules) for call, _ in failed)
    more = "" if first else ", or go on without these molecules with --accept-failures (accept_failures=True)"
    raise InputError(
        f"The scorer gave no score to any of {amount(n, 'molecules')} in {amount(len(failed), 'calls')}: it "
        f"{_as_verb(failure.reason)}. What it printed is in {Path(failure.folder) / OUTPUT}; correct it, and "
        f"run the same command again{more}."
    )


def _as_verb(reason: str) -> str:
    """Return a reason that goes on after "it"."""
    if reason.startswith(("ended", "did", "it ")):
        return reason.removeprefix("it ")
    return f"wrote what cannot be used, {reason}"


def _whole(folder: Path, molecules: Sequence[Molecule]) -> Scored:
    """Return the results of all calls of a batch."""
    scores: dict[str, float] = {}
    reasons: dict[str, str] = {}
    repeated = others = unread = 0
    words = ""
    for result in _results(folder):
        scores |= result["scores"]
        no_numbers = result.get("no_numbers")
        lacks = (
            f"no number as a score in the file that the scorer wrote ({no_numbers})"
            if no_numbers
            else NO_SCORE
        )
        reasons |= dict.fromkeys(result["molecules"], result["reason"] or lacks)
        repeated, others = repeated + result["repeated"], others + result["others"]
        unread += result.get("unread", 0)
        words = words or result["words"]
    failures = {each.name: reasons.get(each.name, NO_SCORE) for each in molecules if each.name not in scores}
    notes = [words] if words else []
    if failures:
        name, reason = next(iter(failures.items()))
        failed = f"{amount(len(failures), 'molecules')} of {len(molecules):,} failed"
        notes.append(f"{failed}, never to be suggested again, such as {name}: {reason}")
    if repeated:
        notes.append(
            f"{amount(repeated, 'molecules')} have several scores, such as of poses; the best one counts"
        )
    if others:
        notes.append(
            f"{amount(others, 'scores')} are of other molecules than those of the call, and were left out"
        )
    if unread:
        notes.append(f"left out: {amount(unread, 'rows')} of what the scorer wrote, which cannot be read")
    names = {each.name for each in molecules}
    return Scored({name: score for name, score in scores.items() if name in names}, failures, tuple(notes))


def molecules_of(smiles: Sequence[str], ids: Sequence[str]) -> list[Molecule]:
    """Return molecules with names that any program can read: their IDs, unless these repeat or have blanks.

    Examples
    --------
    >>> [molecule.name for molecule in molecules_of(["CCO", "CCN", "CCC"], ["Z1", "Z 2", "Z1"])]
    ['Z1', 'molecule-2', 'molecule-3']
    """
    names: dict[str, None] = {}
    for number, name in enumerate(ids, 1):
        plain = (
            name.isascii() and name.isprintable() and not set(name) & set(" ,;'\"/\\") and name not in names
        )
        free = name if name and plain else f"molecule-{number}"
        while free in names:
            free += "_"
        names[free] = None
    return [Molecule(name, text) for name, text in zip(names, smiles, strict=True)]

"""Scorers: a command line with placeholders, or a Python function, called on some molecules at a time."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from daskrf.errors import InputError, OptionError, printable
from daskrf.quantities import listed

SMILES, SCORES, FOLDER = "{smiles}", "{scores}", "{folder}"
_PLACEHOLDERS = (SMILES, SCORES, FOLDER)
_PLACEHOLDER = re.compile(r"\{[A-Za-z_]*\}")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_LAST_BYTES = 4096  # of the output of a command, where its last line is looked for
_SHOWN = 200  # characters of that line
_POLL = 0.2  # seconds between looks whether the run is to stop
_PATIENCE = 60.0  # seconds for a supervisor to end its command
_BY_OTHERS = frozenset([signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM])


@dataclass(frozen=True)
class Ending:
    """How a call of a scorer ended.

    Attributes
    ----------
    reason : str
        Why it failed; empty if it did not.
    is_killed : bool
        Whether a signal ended it that programs get from others: a user, a batch system, or the kernel for
        want of memory.
    """

    reason: str = ""
    is_killed: bool = False


@dataclass(frozen=True)
class Scorer:
    """How molecules are scored.

    Attributes
    ----------
    words : tuple of str
        The command line, in which placeholders stand for files.
    folder : str
        Where it runs.
    timeout : float or None
        Seconds after which a call is ended.

    Examples
    --------
    >>> scorer = Scorer.of("dock.sh {smiles} {scores}", None, "/campaigns")
    >>> scorer.command("in.smi", "out", "work")
    ['dock.sh', 'in.smi', 'out']
    """

    words: tuple[str, ...]
    folder: str
    timeout: float | None = None

    @classmethod
    def of(
        cls, command: str | None, function: str | None, folder: str, timeout: float | None = None
    ) -> Scorer:
        """Return the scorer of a campaign.

        Raises
        ------
        OptionError
            If there is none, or two, or a placeholder is missing or unknown.
        """
        if (command is None) == (function is None):
            what = "no scorer" if command is None else "two scorers"
            raise OptionError(
                f"The campaign has {what}; give either command, a command line with {SMILES} and {SCORES}, "
                "or function, such as module:function."
            )
        if timeout is not None and not timeout > 0:
            raise OptionError(f"The timeout of a call must be more than 0 seconds, not {timeout:g}.")
        if function is not None:
            if not _FUNCTION.fullmatch(function):
                raise OptionError(
                    f"The function must be like module:function, not {printable(function, 80)!r}."
                )
            call = [sys.executable, "-m", "daskrf.campaigns.functioncall", function, SMILES, SCORES]
            return cls(tuple(call), folder, timeout)
        assert command is not None
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise OptionError(f"The command {printable(command, 80)!r} cannot be read: {error}.") from None
        named = _PLACEHOLDER.findall(command)
        if unknown := [name for name in named if name not in _PLACEHOLDERS]:
            raise OptionError(
                f"The command has the placeholder {unknown[0]}, which does not exist; there are "
                f"{listed(_PLACEHOLDERS)}."
            )
        if missing := [name for name in (SMILES, SCORES) if name not in named]:
            raise OptionError(
                f"The command {printable(command, 80)!r} lacks {' and '.join(missing)}: it gets the name "
                f"of a file of molecules for {SMILES}, and that of the file to write for {SCORES}."
            )
        return cls(tuple(words), folder, timeout)

    def command(self, smiles: str, scores: str, folder: str) -> list[str]:
        """Return the command line for some files."""
        names = {SMILES: smiles, SCORES: scores, FOLDER: folder}
        return [_PLACEHOLDER.sub(lambda match: names.get(match[0], match[0]), word) for word in self.words]

    def run(self, command: Sequence[str], waiting: int, output: Path, check: Callable[[], None]) -> Ending:
        """Run a command line, and return how it ended.

        Parameters
        ----------
        command : sequence of str
        waiting : int
            Number of this process.
        output : Path
            File of what the command prints.
        check : callable
            Called now and then; it raises an exception to end the command.
        """
        start = time.monotonic()
        supervised = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(waiting), *command]
        with output.open("wb") as printed:
            process = subprocess.Popen(
                supervised,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
            try:
                while (code := _ended(process)) is None:
                    check()
                    if self.timeout is not None and time.monotonic() - start > self.timeout:
                        return Ending(f"did not end within {self.timeout:g} seconds")
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait(_PATIENCE)
        if code == 0:
            return Ending()
        return Ending(f"ended with exit code {code}{_last_line(output)}", code - 128 in _BY_OTHERS)


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    """Wait a little; return the exit code of a process that has ended, or None."""
    try:
        return process.wait(_POLL)
    except subprocess.TimeoutExpired:
        return None


def _last_line(output: Path) -> str:
    """Return the last line that a command printed, as the end of a sentence."""
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _LAST_BYTES))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return f" ({printable(lines[-1], _SHOWN)})" if lines else " without a word"


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not on a file system, where commands cannot write."""
    if "://" in str(folder):
        raise InputError(f"A campaign calls programs, which need files; give a folder, not {folder}.")

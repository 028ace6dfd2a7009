"""Check that the first lines of files are molecules, before spending hours on reading the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from daskrf.errors import InputError, printable
from daskrf.molecules.isolation import Lost, each
from daskrf.molecules.radicals import note_on_radicals
from daskrf.tables.formats import TableFormat, reader_of
from daskrf.tables.layout import detect_layout
from daskrf.tables.library import Layout, file_words
from daskrf.tables.scanning import first_rows
from daskrf.tables.values.names import column_words

_LINES = 1_000  # of each file
_LINES_OF_MANY = 100  # of each of more than ten files
_MANY_FILES = 10
_AT_ONCE = 100
_EXAMPLES = 3
_SHOWN = 40  # characters of a line


def check_first_lines(
    files: Sequence[tuple[PurePath, Layout]], fmt: TableFormat | None = None, *, accept: bool = False
) -> list[str]:
    """Raise if more than half of the first 1,000 lines of a file (100 if many files) are not molecules.

    A line counts as a molecule if RDKit can parse its SMILES; valences are not checked here. Reading stops
    once half of the lines are known to be molecules.

    Parameters
    ----------
    files : sequence of (PurePath, Layout)
        From `lay_out`.
    fmt : TableFormat, optional
        The options given by the user; the message says if they are the cause.
    accept : bool
        Accept files whose lines are mostly not molecules.

    Returns
    -------
    list of str
        Notes on molecules among them that are probably not meant.

    Raises
    ------
    InputError
        Names the file, some of the lines and why they fail, how the file was read, and what to try.
    """
    notes = []
    for path, layout in files:
        seen = _seen(path, layout, _LINES if len(files) <= _MANY_FILES else _LINES_OF_MANY)
        if seen.mostly_bad and not accept:
            raise InputError(_refusal(path, layout, fmt or TableFormat(), seen))
        which = f"among the first {seen.n_lines:,} {reader_of(layout).row_word}s of {file_words(path)}"
        notes.append(note_on_radicals(seen.smiles, which))
    return list(filter(None, notes))


@dataclass(frozen=True)
class _Seen:
    """How many lines were read, those that are not molecules (number, text and reason), and all SMILES.

    The reason is empty if RDKit still has to be asked for it, which takes longer than parsing the line.
    """

    n_lines: int
    bad: list[tuple[int, str, str]]
    smiles: Sequence[str] = ()

    @property
    def mostly_bad(self) -> bool:
        """Whether more than half of the lines are not molecules."""
        return 2 * len(self.bad) > self.n_lines


def _seen(path: PurePath, layout: Layout, n_lines: int) -> _Seen:
    """Read the first lines of a file, until half of them are known to be molecules."""
    batch = first_rows(path, layout, n_lines)
    if batch is None:
        return _Seen(0, [])
    bad = [(reject.line, reject.text, reject.reason) for reject in batch.rejects]
    good = 0
    for start in range(0, len(batch.smiles), _AT_ONCE):
        if 2 * good >= batch.n_read:
            break
        lines, texts = batch.line[start : start + _AT_ONCE].tolist(), batch.smiles[start : start + _AT_ONCE]
        taken = each("daskrf.molecules.counts.counter:syntax_checker", (), texts)
        good += taken.count(True)
        bad += [
            (line, text, "") for line, text, ok in zip(lines, texts, taken, strict=True) if ok is not True
        ]
    return _Seen(batch.n_read, sorted(bad), batch.smiles)


def _refusal(path: PurePath, layout: Layout, fmt: TableFormat, seen: _Seen) -> str:
    word, name = reader_of(layout).row_word, file_words(path)
    examples = ", ".join(
        f"{word} {line:,} ('{printable(text, _SHOWN)}': {reason or _why(text)})"
        for line, text, reason in seen.bad[:_EXAMPLES]
    )
    return (
        f"{len(seen.bad):,} of the first {seen.n_lines:,} {word}s of {name} could not be read as molecules, "
        f"such as {examples}; SMILES were read from {_place(layout)}; {_advice(path, fmt, seen)}, or go on "
        f"without such {word}s with --accept-rejects (accept_rejects=True)"
    )


def _why(text: str) -> str:
    """Return why RDKit rejects a text."""
    (why,) = each("daskrf.molecules.counts.counter:explainer", (), [text])
    return f"RDKit {why.reason}" if isinstance(why, Lost) else str(why)


def _place(layout: Layout) -> str:
    """Return where the SMILES of a file are."""
    plain = replace(layout, compression=layout.encoding)
    return f"{column_words(layout.names, layout.smiles)} of {reader_of(plain).words(plain)}"


def _advice(path: PurePath, fmt: TableFormat, seen: _Seen) -> str:
    """Return what to try: dropping an option that the user gave, if that is the cause."""
    words = {"smiles": "column", "delimiter": "delimiter", "header": "header"}
    chosen = [word for option, word in words.items() if getattr(fmt, option) is not None]
    if chosen:
        free = replace(fmt, smiles=None, id=None, extra=(), delimiter=None, header=None)
        try:
            layout = detect_layout(path, free)
            better = _seen(path, layout, seen.n_lines)
        except InputError:
            better = seen
        if not better.mostly_bad:
            return f"leave out the {' and '.join(chosen)} that you gave, to read them from {_place(layout)}"
    return "say which column holds the SMILES and what separates the columns"

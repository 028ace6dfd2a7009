"""Find the header of a table, and its columns of SMILES and of numbers, by names and by content."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Sequence
from pathlib import PurePath

from daskrf.errors import InputError
from daskrf.molecules.extensions import clean_smiles
from daskrf.molecules.isolation import each
from daskrf.quantities import MISSING, is_number, listed
from daskrf.tables.formats import EVERY, Head, TableFormat
from daskrf.tables.values.classes import is_truth
from daskrf.tables.values.docking import chosen_score, known_score
from daskrf.tables.values.names import (
    ID_NAMES,
    SMILES_NAMES,
    SURE_NAMES,
    column_words,
    ends_in_id,
    find_smiles,
    normalised,
)
from daskrf.tables.values.notation import is_value

_ROW_NAMES = frozenset(
    [
        *("", "index", "idx", "row", "rownumber", "rowid", "unnamed", "no", "nr", "number", "level0"),
        *("model", "modelnumber", "pose", "posenumber", "poseid", "mode", "conformer", "conf"),
    ]
)
_LETTERS = re.compile(r"(?:Cl|Br|[BCNOPSFIbcnops*]|\[[^\[\]\s]+\]|[-=#$:~<>/\\.()%\d])+")
_UNNAMED = re.compile(r"unnamed\d*(?:level\d+)?")
_DATE = re.compile(r"(?:19|20)\d\d(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))?")
_SEVERAL = 3  # values that can be told to be dates
_FEW_WORDS = 5  # different words, such as n.d. and inactive, in a column of numbers, ...
_FAIR_SHARE = 0.05  # ...and the share of numbers in it, at least
_LONGEST_WORD = 20  # characters, of "not determined" and the like; remarks are longer, or of several lines
_LONG_ENOUGH = 2  # characters of the longest of some texts that are SMILES, not IDs such as B and C


@functools.lru_cache(maxsize=10_000)
def is_smiles(text: str) -> bool:
    """Return whether RDKit can parse `text`, which is asked only where the letters are those of SMILES."""
    smiles = clean_smiles(text).partition(" |")[0]
    if not _LETTERS.fullmatch(smiles):
        return False
    return each("daskrf.molecules.counts.counter:syntax_checker", (), [smiles]) == [True]


def mostly_smiles(values: Sequence[str]) -> bool:
    """Return whether at least half of some values, and at least one, are SMILES."""
    return 2 * sum(map(is_smiles, values)) >= max(1, len(values))


def is_header(fields: Sequence[str], below: Sequence[Sequence[str]], fmt: TableFormat | None = None) -> bool:
    """Return whether the fields of the first row are names of the columns `below`.

    Notes
    -----
    They are if there are SMILES below a field that contains "smiles", or if the other columns are called 0,
    1, 2 and so on beside one of IDs, as pandas calls those without names. Else none of them may be a number,
    or a SMILES above SMILES. Then one of them must be a usual name of a column of SMILES or IDs, contain
    "smiles" and no digit, be a name that the user gave, or stand above numbers or truth values without being
    one.
    """
    names = [normalised(name) for name in fields]
    columns = [[row[k].strip() for row in below if k < len(row)] for k in range(len(fields))]
    for name, values in zip(names, columns, strict=True):
        # An ID may contain "smiles" too, but there are no SMILES below it.
        if "smiles" in name and any(map(is_smiles, values)):
            return True
    if _counts_columns(names, columns):
        return True
    if any(_is_number(field, values) for field, values in zip(fields, columns, strict=True)):
        return False
    fmt = fmt or TableFormat()
    requested = (column for column in (fmt.smiles, fmt.id, *fmt.extra) if column != EVERY)
    usual = {
        *SMILES_NAMES,
        *ID_NAMES,
        *(normalised(column) for column in requested if isinstance(column, str)),
    }
    named = any(name in usual or ("smiles" in name and not any(map(str.isdigit, name))) for name in names)
    wide = 2 * sum(len(row) <= len(fields) for row in below) >= len(below)  # a few rows may be broken
    if not named and not any(
        wide
        and field.strip().lower() not in MISSING
        and (_are_numbers(values) or (_are_truths(values) and not _are_truths([field, *values])))
        for field, values in zip(fields, columns, strict=True)
    ):
        return False
    return not any(
        is_smiles(field) and (not values or any(map(is_smiles, values)))
        for name, field, values in zip(names, fields, columns, strict=True)
        if name not in usual
    )


def _counts_columns(names: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Return whether a first row is an index without a name, or called ID, and then 0, 1, 2 and so on."""
    first, *others = names
    if not others or others != [str(k) for k in range(len(others))] or not columns[0]:
        return False
    texts = not any(map(is_number, columns[0])) and first not in map(normalised, columns[0])
    return texts and (not first or first in SURE_NAMES)


def _is_number(field: str, below: Sequence[str]) -> bool:
    """Return whether the first field of a column is a number; one with a unit, such as 24h, may be a name."""
    if is_value(field, bare=True):
        return True
    return is_value(field) and any(is_value(text) and not is_value(text, bare=True) for text in below)


def _are_numbers(values: Sequence[str]) -> bool:
    """Return whether there are values, and at least half of those that are there are numbers."""
    there = [text for text in values if text.lower() not in MISSING]
    return bool(there) and 2 * sum(map(is_value, there)) >= len(there)


def _are_truths(values: Sequence[str]) -> bool:
    """Return whether the values that are there are words of two classes, such as TRUE and FALSE."""
    return is_truth([text for text in values if text.lower() not in MISSING])


def _are_partly_numbers(values: Sequence[str]) -> bool:
    """Return whether a fair share of the values that are there are numbers, and all others a few words."""
    there = [text for text in values if text.lower() not in MISSING]
    words = [text for text in there if not is_value(text)]
    plain = not any(
        any(map(str.isdigit, text)) or "\n" in text or len(text) > _LONGEST_WORD for text in words
    )
    return plain and len(set(words)) <= _FEW_WORDS and len(there) - len(words) > _FAIR_SHARE * len(there)


def _are_dates(values: Sequence[str]) -> bool:
    """Return whether there are several values, all of them dates such as 20240105, or years."""
    there = [text for text in values if text]
    return len(there) >= _SEVERAL and all(_DATE.fullmatch(text) for text in there)


def smiles_by_content(head: Head, taken: Collection[int | None] = ()) -> int | None:
    """Return the position of the column with the most valid SMILES, the longest of several, or None.

    Columns whose names always mean IDs are not looked at.
    """
    names, best, best_position = head.table.names or (), (0, 0), None
    ids = {k for k, name in enumerate(names) if normalised(name) in SURE_NAMES or ends_in_id(name)}
    for position, values in zip(head.text, head.columns(head.text), strict=True):
        if position in taken or position in ids:
            continue
        valid = [value for value in values if is_smiles(value)]
        score = len(valid), sum(map(len, valid))
        if score > best:
            best, best_position = score, position
    return best_position


def smiles_position(head: Head) -> int | None:
    """Return the position of the SMILES in a table that may have them, by name or content, or None."""
    if head.structure is not None:
        return head.structure
    named = find_smiles(head.table.names or (), lambda k: any(map(is_smiles, head.values(k))))
    if named is not None and any(map(is_smiles, head.values(named))):
        return named
    at = smiles_by_content(head)
    values = [] if at is None else head.values(at)
    return at if mostly_smiles(values) and max(map(len, values)) >= _LONG_ENOUGH else named


def smiles_column(path: PurePath, head: Head, position: int | None = None) -> int:
    """Return the position of the SMILES in a table that must have them: as given, or by name or content.

    Raises
    ------
    InputError
        Fewer than half of the first values there are SMILES.
    """
    names = head.table.names
    at = position
    if at is None and (at := smiles_position(head)) is None:
        at = smiles_by_content(head)
    if at is None:
        raise InputError(
            f"{path} has no SMILES in its columns {listed(head.names)}; name the SMILES column with "
            "--key-column, or give the library that the labels belong to"
        )
    values = head.values(at)
    if not mostly_smiles(values):
        shown = f", such as {values[0]!r}" if values else ""
        raise InputError(
            f"{path} has no SMILES in {column_words(names, at)}{shown}; name the SMILES column with "
            "--key-column, or give the library that the labels belong to"
        )
    return at


def only_target(path: PurePath, head: Head, taken: Collection[int]) -> int:
    """Return the position of the only numeric column besides some that are taken.

    Columns without a value are none, nor are those that count rows or poses. Numbers may stand beside words
    such as n.d., even if these are more. If no column has numbers, one of truth values is taken. Of several,
    it is the score of a docking program, if nothing else may be meant. Dates alone are not taken.

    Raises
    ------
    InputError
        There is none, or several.
    """
    names, usual = head.names, {*ID_NAMES, *SMILES_NAMES}
    others = [k for k, name in enumerate(names) if k not in taken and normalised(name) not in usual]
    columns = {k: list(map(str.strip, texts)) for k, texts in zip(others, head.columns(others), strict=True)}
    numeric = [k for k, texts in columns.items() if _are_numbers(texts) or _are_partly_numbers(texts)]
    numeric = [k for k in numeric if not _counts(names[k] if head.table.names else None, columns[k])]
    numeric = numeric or [k for k, texts in columns.items() if _are_truths(texts)]
    if len(numeric) == 1 and _are_dates(columns[numeric[0]]):
        raise InputError(
            f"the only numeric column of {path} in its first {head.n_rows:,} rows is '{names[numeric[0]]}', "
            f"which holds dates or years; name the target columns (its columns are {listed(names)})"
        )
    if len(numeric) == 1:
        return numeric[0]
    if (chosen := chosen_score(names, numeric)) is not None:
        return chosen
    scores = [(names[k], score) for k in numeric if (score := known_score(names[k], names)) is not None]
    several = listed([names[position] for position in numeric])
    several += "".join(f"; '{name}' is the {score.words()}" for name, score in scores)
    problem = f"several numeric columns ({several})" if numeric else "no numeric column besides the key"
    raise InputError(f"{path} has {problem}; name the target columns (its columns are {listed(names)})")


def counts_rows(head: Head, position: int) -> bool:
    """Return whether a column counts rows or poses, so that it holds neither IDs nor values."""
    return _counts(head.table.names[position] if head.table.names else None, head.values(position))


def _counts(name: str | None, texts: Sequence[str]) -> bool:
    """Return whether a column counts rows or poses: by its name and whole numbers, or as 1, 2, 3, 1, 2, 1."""
    there = [text.strip() for text in texts if text.strip()]
    if not all(map(str.isdigit, there)):
        return False
    plain = None if name is None else normalised(name)
    if plain is not None and (plain in _ROW_NAMES or _UNNAMED.fullmatch(plain)):
        return True
    numbers = list(map(int, there))
    steps = list(itertools.pairwise(numbers))
    again = sum(b == 1 for _, b in steps)
    return numbers[:1] == [1] and 0 < again < len(steps) and all(b in (1, a + 1) for a, b in steps)

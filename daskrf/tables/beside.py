"""Find the columns that qualify a target: its relations, its units, and flags of limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePath

from daskrf.errors import InputError, printable
from daskrf.quantities import MISSING, is_number, listed
from daskrf.tables.formats import Head
from daskrf.tables.values.names import normalised
from daskrf.tables.values.notation import is_value, sign_of
from daskrf.tables.values.units import is_sure_unit, unit_of_cell
from daskrf.tables.values.values import is_logarithm

UNIT_NAMES = ("standardunits", "standardunit", "units", "unit", "activityunits", "concunit", "resultunit")
RELATION_NAMES = ("standardrelation", "relation", "qualifier", "operator", "prefix", "modifier", "censor")

_OF_RELATIONS = re.compile(r"(?<!cor)relation|qualifier|operator|prefix|modifier|censor|inequalit")
_SURE_WORDS = ("lt", "lte", "gt", "gte")  # other words without spaces, such as left, may mean other things
_TRUE, _FALSE = {"1", "1.0", "-1", "-1.0", "true", "t", "yes", "y"}, {"0", "0.0", "false", "f", "no", "n"}
_NOT_CENSORED = re.compile(r"(?:un|non?|not)censor")
_UNIT_AT_END = re.compile(r"[(\[].*|[\s_,.][munpf]?(?:M|mol/?[lL])$")
_OF_UNITS = re.compile(r"(?<!sub)(?<!comm)unit|uom")
_FEW = 2  # different values of a column that may be a class, and has no relations of its own


def columns_beside(
    path: PurePath, head: Head, targets: Sequence[int], taken: Collection[int]
) -> tuple[dict[str, int], dict[int, str]]:
    """Return the columns that qualify a target, by what they hold, and why others are unused.

    They hold "relations", "flags" of limits where there are no relations, and "units". A column is recognized
    by a usual name, or else by its content: all cells are relations, or units. Of several columns, the one
    whose name contains that of the target is taken. With several targets none is, because it is unclear which
    target it belongs to.

    Raises
    ------
    InputError
        If it is unclear which of several columns is meant, or one with a usual name holds unknown words.
    """
    names, unused = head.names, dict[int, str]()
    free = [k for k in range(len(names)) if k not in taken and k not in targets and k != head.structure]
    usual = named(names, RELATION_NAMES, (*taken, *targets))
    looked = [k for k in free if k in head.text or k == usual or "censor" in normalised(names[k])]
    columns = zip(looked, head.columns(looked), strict=True)
    cells = {k: [text for text in texts if text.strip().lower() not in MISSING] for k, texts in columns}
    target = _stem(names[targets[0]])
    others = {k: stem for k in free if len(stem := _stem(names[k])) > 1 and stem != target}

    def chosen(usual: int | None, holds: Callable[[str, list[str]], bool], what: str) -> int | None:
        """Return the column with a usual name, or else that of which name and cells hold; note others."""
        candidates = [usual] if usual is not None else [k for k in cells if holds(names[k], cells[k])]
        if len(targets) > 1:
            unused.update(dict.fromkeys(candidates, "it is unclear which target it belongs to"))
            return None
        if usual is not None:
            return usual
        mine = [k for k in candidates if target and target in normalised(names[k])]
        for k in () if mine else candidates[:]:
            plain = normalised(names[k])
            of = [at for at, stem in others.items() if at != k and plain.startswith(stem)]
            if (at := next((at for at in of if _are_values(head.values(at))), None)) is not None:
                unused[k] = f"its name refers to '{printable(names[at], 60)}'"
                candidates.remove(k)
        candidates = mine or candidates
        if len(candidates) > 1:
            raise InputError(
                f"{path}: {listed([names[k] for k in candidates], chr(39))} hold {what}, and it is unclear "
                f"which of them belongs to '{printable(names[targets[0]], 60)}'; leave the others out"
            )
        return candidates[0] if candidates else None

    if usual is not None and len(targets) == 1 and not _holds_relations(path, names[usual], cells[usual]):
        if not _are_flags(names[usual], cells[usual]):
            unused[usual] = "it holds no relations such as >"
        usual = None
    positions = {
        "relations": chosen(usual, lambda name, texts: _are_relations(name, texts, target), "relations")
    }
    if positions["relations"] is None:
        positions["flags"] = chosen(None, _are_flags, "flags of limits")
    usual = named(names, UNIT_NAMES, (*taken, *targets))
    positions["units"] = chosen(usual, lambda name, texts: _are_units(name, texts, target), "units")
    if positions["units"] is not None and is_logarithm(names[targets[0]]):
        unused[positions["units"]] = (
            f"'{printable(names[targets[0]], 60)}' is a logarithm, judging by its name"
        )
        positions["units"] = None
    return {what: place for what, place in positions.items() if place is not None}, unused


def named(names: Sequence[str], usual: Sequence[str], taken: Collection[int]) -> int | None:
    """Return the position of the column with one of the usual names, the best first, or None."""
    plain = [normalised(name) for name in names]
    matches = (plain.index(name) for name in usual if name in plain)
    return next((position for position in matches if position not in taken), None)


def no_relation(name: str, text: str) -> str:
    """Return the message for a cell of a column of relations that holds no known relation."""
    return (
        f"'{printable(name, 60)}' holds {text.strip()!r}, which is not a known relation such as <, > or =; "
        "correct it, or rename the column"
    )


def is_limit(name: str, text: str) -> bool:
    """Return whether a cell of a column of flags says that the label is a limit.

    Examples
    --------
    >>> is_limit("censored", "1"), is_limit("censored", "False"), is_limit("uncensored", "0")
    (True, False, True)
    """
    plain = text.strip().lower()
    return plain not in MISSING and plain not in (_TRUE if _NOT_CENSORED.search(normalised(name)) else _FALSE)


def _holds_relations(path: PurePath, name: str, texts: Sequence[str]) -> bool:
    """Return whether a column with a usual name holds relations; refuse unknown words in their place.

    Operator, prefix and modifier may mean other things, such as the person who measured.
    """
    if not texts or any(sign_of(text) is not None for text in texts):
        return True
    if normalised(name) not in ("operator", "prefix", "modifier") and not _are_flags(name, texts):
        raise InputError(f"{path}: {no_relation(name, texts[0])}")
    return False


def _are_relations(name: str, texts: Sequence[str], target: str) -> bool:
    """Return whether some cells are relations, by themselves or, where words may mean other things, by name.

    A name of relations that contains the name of the target is enough without cells.
    """
    by_name = _OF_RELATIONS.search(normalised(name)) is not None
    if not texts:
        return by_name and bool(target) and target in normalised(name)
    sure = [text for text in texts if sign_of(text) and _is_sure(text)]
    all_relations = all(sign_of(text) for text in texts)
    return (bool(sure) and (all_relations or by_name)) or (all_relations and by_name)


def _is_sure(relation: str) -> bool:
    """Return whether a known relation can mean nothing else, unlike `left` and `measured`."""
    plain = relation.strip().lower()
    return not plain.isalpha() or plain in _SURE_WORDS


def _are_flags(name: str, texts: Sequence[str]) -> bool:
    """Return whether a column, by its name and cells, flags limits without their direction."""
    plain = {text.strip().lower() for text in texts}
    return "censor" in normalised(name) and bool(plain) and plain <= _TRUE | _FALSE


def _are_units(name: str, texts: Sequence[str], target: str) -> bool:
    """Return whether some cells are units: one that is known is enough where the name says so.

    Without such a name all must be units that cannot be anything else, unlike M, K and min. A name of units
    that contains the name of the target is enough, whatever the cells.
    """
    plain = normalised(name)
    if _OF_UNITS.search(plain) and not all(map(is_number, texts)):
        return bool(target and target in plain) or any(unit_of_cell(text) is not None for text in texts)
    return bool(texts) and all(map(is_sure_unit, texts))


def _are_values(texts: Sequence[str]) -> bool:
    """Return whether some cells are numbers of a quantity, not of two classes."""
    there = {text.strip() for text in texts if text.strip().lower() not in MISSING}
    return len(there) > _FEW and all(map(is_value, there))


def _stem(name: str) -> str:
    """Return the name of a quantity without its unit, as names are compared."""
    return normalised(_UNIT_AT_END.sub("", name))

"""Sizes, durations, counts, choices and lists in words, the same everywhere; and what columns may hold."""

from __future__ import annotations

from collections.abc import Sequence

from daskrf.errors import printable

DESCRIPTORS = "descriptors"
"""Name of the columns that hold numbers of any size, not counts: a kernel of their own is for them."""
SUBSTITUENTS = "substituents"
"""Name of the columns that hold substituents, which a kernel sees by themselves."""

POSITIONS = "positions"
"""Name of the columns that hold positions of atoms, which a kernel sees by themselves."""
DTYPES = ("bits", "float32", "float16")
"""How features are stored."""
MAX_COUNT = 65_535
"""Largest count in one column: counts are stored as uint16."""
MISSING = frozenset({"", "na", "n/a", "null", "none", "<na>", "#n/a"})
"""Cells, in small letters, that hold nothing."""
_LISTED, _SHOWN = 10, 60  # names shown in a message, and characters of each


def format_bytes(size: float) -> str:
    """Return a size with a binary unit.

    Examples
    --------
    >>> format_bytes(512), format_bytes(3 * 2**30)
    ('512 B', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> duration(4.2), duration(75), duration(7260)
    ('4.2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


_SINGULAR = {"ies": "y", "sses": "ss", "s": "", "": ""}  # by the end of the plural


def amount(value: float, unit: str) -> str:
    """Return a number with its unit, in words; `unit` is a plural.

    Examples
    --------
    >>> amount(12345, "rows"), amount(1, "models"), amount(1, "processes"), amount(2_500_000, "bytes")
    ('12,345 rows', '1 model', '1 process', '2.4 MiB')
    >>> amount(1, "copies")
    '1 copy'
    """
    if unit == "bytes":
        return format_bytes(value)
    number = f"{value:,.0f}"
    if number == "1":
        plural = next(end for end in _SINGULAR if unit.endswith(end))
        unit = unit.removesuffix(plural) + _SINGULAR[plural]
    return f"{number} {unit}"


def features_words(filled: int, requested: int) -> str:
    """Return a number of features, and how many were requested if that is more.

    Examples
    --------
    >>> features_words(1024, 1024), features_words(2990, 5000)
    ('1,024 features', '2,990 features (5,000 requested)')
    """
    return amount(filled, "features") + (f" ({requested:,} requested)" if filled < requested else "")


def either(flag: str, names: Sequence[str]) -> str:
    """Return an option with the values to choose from.

    Examples
    --------
    >>> either("--map", ["fourier"]), either("--kernel", ["gaussian", "matern", "unit-balls"])
    ('--map fourier', '--kernel gaussian, matern or unit-balls')
    """
    *first, last = names
    return f"{flag} {', '.join(first)} or {last}" if first else f"{flag} {last}"


def is_number(text: str) -> bool:
    """Return whether `float` can parse the text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def listed(names: Sequence[object], quote: str = "") -> str:
    """Return names for a message, each in `quote`: the first ten, and how many more there are.

    Examples
    --------
    >>> listed(["id", "score"], "'"), listed(range(1_000))
    ("'id', 'score'", '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more')
    """
    shown = ", ".join(f"{quote}{printable(name, _SHOWN)}{quote}" for name in names[:_LISTED])
    return f"{shown} and {len(names) - _LISTED:,} more" if len(names) > _LISTED else shown

"""The patterns of RDKit's catalogs of structural alerts, one by one."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from rdkit import Chem
from rdkit.Chem.FilterCatalog import FilterCatalog, FilterCatalogParams

from daskrf.errors import OptionError

ALERTS = ("pains", "brenk", "nih", "zinc")
"""Names of catalogs."""

_PICKLE = b"\xef\xbe\xad\xde"  # a pickled molecule begins with this
_ANY_NUMBER = 2**32 - 1


@dataclass(frozen=True)
class Alert:
    """An alert: a pattern, and how often a molecule has to contain it.

    Attributes
    ----------
    name : str
    smarts : str
        Empty if RDKit does not tell it.
    least : int
        A molecule with at least so many occurrences has the alert.
    """

    name: str
    smarts: str
    least: int = 1


def catalog_of(name: str) -> FilterCatalog:
    """Return a catalog of RDKit by one of the names of `ALERTS`."""
    parameters = FilterCatalogParams()
    parameters.AddCatalog(getattr(FilterCatalogParams.FilterCatalogs, name.upper()))
    return FilterCatalog(parameters)


def catalogs_of_texts(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of catalogs, each once, from texts that may name several.

    Raises
    ------
    OptionError
        If there is no such catalog.

    Examples
    --------
    >>> catalogs_of_texts(("PAINS,brenk", "pains"))
    ('pains', 'brenk')
    """
    names = tuple(dict.fromkeys(name.strip().lower() for text in texts for name in text.split(",")))
    for name in names:
        if name not in ALERTS:
            raise OptionError(f"There is no alert catalog {name!r}; choose from {', '.join(ALERTS)}.")
    return names


@functools.lru_cache(maxsize=len(ALERTS))
def alerts_of(name: str) -> tuple[Alert, ...]:
    """Return the alerts of a catalog.

    RDKit shows the pattern of an alert only together with a molecule that has it. But alerts can be
    serialized: as text that ends in the pickled pattern, and the least and largest number of its occurrences.

    Examples
    --------
    >>> brenk = {alert.name: alert for alert in alerts_of("brenk")}
    >>> brenk["acyclic_C=C-O"].smarts
    'C=[C&!R]O'
    >>> [alert.least for alert in alerts_of("zinc")][:2]
    [41, 41]
    """
    catalog = catalog_of(name)
    return tuple(_alert(catalog.GetEntryWithIdx(i)) for i in range(catalog.GetNumEntries()))


def _alert(entry: Any) -> Alert:
    name = str(entry.GetDescription())
    try:
        data: bytes = entry.Serialize()
        start = data.index(_PICKLE)
        stop = start + int(data[:start].split()[-1])
        least, most = map(int, data[stop:].split()[:2])
        pattern = Chem.Mol(data[start:stop])  # type: ignore[call-overload]  # RDKit's stubs lack bytes
    except (AttributeError, IndexError, RuntimeError, ValueError):  # another serialization, or none
        return Alert(name, "")
    return Alert(name, "" if most != _ANY_NUMBER else str(Chem.MolToSmarts(pattern)), least)

"""Names of columns: those under which the SMILES and the ID of a molecule are searched for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePath

from daskrf.errors import InputError
from daskrf.quantities import amount, is_number, listed

# Best first; compared by `normalised`, so that "CMPD_CHEMBLID" and "cmpd chemblid" are one name.
SMILES_NAMES = (
    *("smiles", "canonicalsmiles", "isomericsmiles", "smilescanonical", "cxsmiles", "smi", "structure"),
)
SURE_NAMES = (  # always mean the ID of a molecule
    *("id", "idnumber", "identifier", "compoundid", "moleculeid", "molid", "cmpdid", "cpdid", "ligandid"),
    *("catalogid", "catalognumber", "catalogno", "catno", "productid", "substanceid", "structureid"),
    *("zincid", "moleculechemblid", "cmpdchemblid", "compoundchemblid", "chemblid", "cid", "compoundcid"),
    *("bindingdbmonomerid", "monomerid", "bindingdbid", "drugbankid", "enamineid", "molportid", "mculeid"),
    *("pubchemcid", "pubchemcompoundcid", "pubchemsid", "pubchemsubstanceid", "casnumber", "casrn"),
)
_LIKELY_NAMES = (  # often mean an ID, but may mean other things
    *("name", "title", "compoundname", "moleculename", "molname", "cmpdname", "ligandname", "drugname"),
    *("chemicalname", "preferredname", "commonname", "compound", "molecule", "cmpd", "ligand", "drug"),
    *("substance", "zinc", "code", "catalog", "sid", "cas", "inchikey", "standardinchikey", "idx", "index"),
    *("bindingdbreactantsetid", "num"),
)
ID_NAMES = (*SURE_NAMES, *_LIKELY_NAMES)
PRODUCT_COLUMNS = frozenset(["reaction", "block_0"])  # of the files of `sample`, `suggest` and `screen`

# Before "ID" in a name, these mean that it identifies something other than the molecule.
_NOT_MOLECULES = frozenset(
    [
        *("activity", "article", "assay", "batch", "class", "cluster", "doc", "document", "donor"),
        *("experiment", "fold", "gene", "group", "journal", "label", "library", "organism", "patent"),
        *("plate", "protein", "pubmed", "reaction", "ref", "reference", "run", "scaffold", "screen"),
        *("series", "set", "source", "species", "split", "study", "supplier", "target", "tax", "taxonomy"),
        *("uniprot", "user", "vendor"),
    ]
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_ENOUGH = 4  # values needed to judge whether a column distinguishes molecules
_REPEATS = 3  # occurrences allowed per molecule: salts, tautomers, replicates


def normalised(name: str) -> str:
    """Return a name in the form used for comparison: lower case, letters and digits only.

    Examples
    --------
    >>> normalised(" Compound_Name"), normalised("catalog number")
    ('compoundname', 'catalognumber')
    """
    return "".join(filter(str.isalnum, name.casefold()))


def find_smiles(
    names: Sequence[str], has_smiles: Callable[[int], bool] = lambda position: True
) -> int | None:
    """Return the position of the best name of a SMILES column, or of one that contains "smiles", or None.

    The first one counts for which `has_smiles` confirms SMILES in the column, else the first of them all.

    Examples
    --------
    >>> find_smiles(["Ligand SMILES", "id"]), find_smiles(["id", "score"])
    (0, None)
    """
    plain = [normalised(name) for name in names]
    others = [plain.index(name) for name in SMILES_NAMES if name in plain]
    others += [position for position, name in enumerate(plain) if "smiles" in name]
    others += [
        position for position, name in enumerate(plain) if name.startswith("smi") or name.endswith("smi")
    ]
    return next(filter(has_smiles, others), others[0] if others else None)


def find_id(
    names: Sequence[str],
    values_of: Callable[[int], Sequence[str]],
    taken: Collection[int | None] = (),
    title: int | None = None,
) -> int | None:
    """Return the position of the ID column: the best name whose values can be IDs, or None.

    Parameters
    ----------
    names : sequence of str
        Names of all columns.
    values_of : callable
        Returns some values of the column at a position, or none if the content is not available.
    taken : collection of int
        Positions already used for something else.
    title : int, optional
        Position of the column that is the ID, by the rules of the format, where most rows have one.

    Notes
    -----
    The best names are those that only ever mean the ID of a molecule, then other names that end in the word
    ID (except those of an assay, a cluster and the like), then names that often mean an ID, such as "name"
    and "compound". A column qualifies if its values distinguish molecules: see `tells_apart`; or if all rows
    of each value follow each other, as the poses of a molecule do.

    Examples
    --------
    >>> find_id(["smiles", "Compound Name", "assay_id"], lambda position: [], taken=[0])
    1
    """
    if title is not None:
        titles = list(values_of(title))
        if 2 * sum(map(bool, map(str.strip, titles))) > len(titles) and _name_molecules(titles):
            return title
        taken = (*taken, title)
    plain = [normalised(name) for name in names]
    ending = [k for k, name in enumerate(names) if ends_in_id(name)]
    ranked = [
        *(plain.index(name) for name in SURE_NAMES if name in plain),
        *ending,
        *(plain.index(name) for name in _LIKELY_NAMES if name in plain),
    ]
    sure = set(SURE_NAMES)
    for position in ranked:
        if position in taken:
            continue
        values = values_of(position)
        if _name_molecules(values) or tells_apart(values, named=plain[position] in sure):
            return position
    return None


def _name_molecules(values: Sequence[str]) -> bool:
    """Return whether values distinguish molecules, whose poses may be many if they follow each other."""
    there = [value.strip() for value in values if value.strip()]
    runs = sum(one != other for one, other in itertools.pairwise(there)) + 1
    return tells_apart(there) or (runs == len(set(there)) > 1 and not all(map(is_number, there)))


def position_of(path: PurePath, column: str | int, names: Sequence[str] | None, width: int) -> int:
    """Return the position of a column requested by name, or by position from 0.

    Raises
    ------
    InputError
        If there is no such column; the message names those that exist.

    Examples
    --------
    >>> position_of(PurePath("a.csv"), "score", ["id", "Score"], 2)
    1
    """
    if isinstance(column, int):
        if not 0 <= column < width:
            raise InputError(
                f"{path} has {amount(width, 'columns')}, so there is no position {column}; count from 0."
            )
        return column
    if names is None:
        raise InputError(f"{path} has no header to find column {column!r} in; give its position, from 0.")
    if column in names:
        return names.index(column)
    matches = [k for k, name in enumerate(names) if name.lower() == column.lower()]
    if len(matches) != 1:
        raise InputError(f"{path} has no column {column!r}; its columns are {listed(names)}.")
    return matches[0]


def ends_in_id(name: str) -> bool:
    """Return whether a name ends in the word ID, and that of a molecule is meant.

    Examples
    --------
    >>> ends_in_id("Our Cmpd ID"), ends_in_id("assay_id"), ends_in_id("ID")
    (True, False, False)
    """
    words = [word.casefold() for word in _WORD.findall(name)]
    return len(words) > 1 and words[-1] == "id" and not _NOT_MOLECULES.intersection(words)


def tells_apart(values: Sequence[str], *, named: bool = False) -> bool:
    """Return whether a column with these values can hold IDs.

    It cannot if all values are numbers with a fraction, an exponent or a sign, or if one value stands for
    more than three molecules on average, as a class or a supplier does. If the name is certain, it is enough
    that the values differ at all.

    Examples
    --------
    >>> tells_apart(["A", "B", "B", "C"]), tells_apart(["0", "1"] * 5), tells_apart(["0.5", "-9.1"])
    (True, False, False)
    """
    there = [value.strip() for value in values if value.strip()]
    if not there:
        return True
    if not named and all(is_number(text) and not text.isdigit() for text in there):
        return False
    distinct = len(set(there))
    return len(there) < _ENOUGH or (distinct > 1 if named else distinct * _REPEATS >= len(there))


def column_words(names: Sequence[str] | None, *positions: int) -> str:
    """Return how messages refer to columns: by name, or by position if the file has no header.

    Examples
    --------
    >>> column_words(["smiles", "id"], 1), column_words(None, 1), column_words(None, 1, 2)
    ("'id'", 'column 1', 'columns 1, 2')
    """
    if names is None:
        return f"column{'s' if len(positions) > 1 else ''} {listed(positions)}"
    return listed([names[position] for position in positions], "'")

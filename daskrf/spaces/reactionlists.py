"""Reactions as others list them: lines of SMARTS with names, tables, and RXN files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rdkit import rdBase
from rdkit.Chem import rdChemReactions

from daskrf.errors import InputError
from daskrf.spaces.reactions import Reaction
from daskrf.spaces.texttable import TextTable, content

_NAMES = ("reaction", "name", "rxn_id", "reaction_id", "reaction_name", "id")
_SMARTS = ("smarts", "reaction_smarts", "rxn_smarts")


def read_reactions(path: PurePath) -> list[Reaction]:
    """Read the reactions of a file, which may be gzipped.

    It is one of

    - lines of SMARTS, each with a name before or after it, or without one;
    - a table with a header: the columns ``smarts`` (or ``reaction_smarts``) and ``reaction``, ``name``,
      ``rxn_id`` or ``reaction_id``, or those of a table of `read_space`: reaction, reactants, product;
    - an RXN file with the queries of one reaction.

    A reaction without a name has that of the file, and a number if there are several. Agents, as in
    ``A.B>C>D``, are left out: they are not in the product.

    Raises
    ------
    InputError
        If it has no reactions, RDKit cannot read one of them, or two have the same name.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "all.smarts"
    >>> _ = path.write_text("amide [N:1]([H])[*:2].[OH][C:3]=[O:4]>>[*:2][N:1][C:3]=[O:4]\\n")
    >>> [reaction.name for reaction in read_reactions(path)]
    ['amide']
    """
    data = content(path)
    text = data.decode("utf-8-sig", "replace")
    if not text.strip():
        listed = []
    elif text.startswith("$RXN"):
        listed = [("", _of_rxn(path, text))]
    elif ">" in next((line for line in text.splitlines() if line.strip() and line[0] != "#"), ""):
        listed = _of_lines(path, text)
    else:
        listed = _of_table(path, data)
    if not listed:
        raise InputError(f"{path} has no reactions.")
    stem, several = path.name.partition(".")[0], len(listed) > 1
    reactions: dict[str, Reaction] = {}
    for number, (name, smarts) in enumerate(listed, 1):
        unique = name or (f"{stem}-{number}" if several else stem)
        if unique in reactions:
            raise InputError(f"{path} has reaction {unique} twice; give each a name of its own.")
        reactions[unique] = Reaction(unique, _without_agents(unique, smarts))
    return list(reactions.values())


def _of_lines(path: PurePath, text: str) -> list[tuple[str, str]]:
    listed = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        smarts = [word for word in words if word.count(">") >= 2]
        if len(smarts) != 1:
            raise InputError(
                f"Line {number} of {path} has {len(smarts) or 'no'} reactions; write one in each line, as "
                "reactants>>product, with a name before or after it."
            )
        listed.append((" ".join(word for word in words if word != smarts[0]), smarts[0]))
    return listed


def _of_table(path: PurePath, data: bytes) -> list[tuple[str, str]]:
    table = TextTable(path, data)
    by_name = {column.lower(): column for column in reversed(table.header)}
    name, smarts = (_column(by_name, names) for names in (_NAMES, _SMARTS))
    if smarts:
        columns = [smarts] if name is None else [smarts, name]
        return [(row[1] if name else "", row[0]) for row in table.rows(columns)]
    if name is None or not {"reactants", "product"} <= by_name.keys():
        raise InputError(
            f"{path} is no list of reactions: it has neither lines of SMARTS, reactants>>product, nor a "
            f"column smarts; its first line is {', '.join(table.header)[:60] or 'empty'}."
        )
    rows = table.rows([name, by_name["reactants"], by_name["product"]])
    return [(row, f"{reactants}>>{product}") for row, reactants, product in rows]


def _column(by_name: dict[str, str], names: Sequence[str]) -> str | None:
    return next((by_name[name] for name in names if name in by_name), None)


def _of_rxn(path: PurePath, text: str) -> str:
    with rdBase.BlockLogs():
        try:
            reaction = rdChemReactions.ReactionFromRxnBlock(text)
        except (ValueError, RuntimeError) as error:
            raise InputError(f"RDKit cannot read {path}, an RXN file.") from error
    return str(rdChemReactions.ReactionToSmarts(reaction))


def _without_agents(name: str, smarts: str) -> str:
    """Return SMARTS without what stands between the signs ">", which may stand in atoms and bonds, too."""
    if ">>" in smarts:
        return smarts
    with rdBase.BlockLogs():
        try:
            reaction = rdChemReactions.ReactionFromSmarts(smarts)
        except ValueError as error:
            raise InputError(f"Reaction {name}: RDKit cannot read the SMARTS {smarts}.") from error
    reaction.RemoveAgentTemplates()
    return str(rdChemReactions.ReactionToSmarts(reaction))

"""CXSMILES extensions, the text between bars after a SMILES, and their enhanced stereo groups."""

from __future__ import annotations

import re

_EXTENSION = re.compile(r"[ \t]+\|(.*)", re.DOTALL)
_TEXTS = re.compile(r"\$[^$]*\$|\([^()]*\)|\{[^{}]*\}")  # labels and coordinates in an extension
_GROUP = re.compile(r"(?:^|(?<=,))[&o]\d*:\d+(?:,\d+)*(?=,|$)")
GROUPS = "with enhanced stereo groups (racemates, or enantiomers of unknown configuration)"
GROUPS_MARK = " |"
"""What stands before the groups in a text of `clean_smiles`, and nowhere else."""
GROUPS_COUNT = "kept in their SMILES; fingerprints treat the marked centres as unspecified"


def clean_smiles(text: str) -> str:
    """Return a SMILES without surrounding blanks, its CXSMILES extension reduced to enhanced stereo groups.

    A group marks a racemate (``&``), or one enantiomer of unknown configuration (``o``): see
    `daskrf.molecules.stereogroups`.

    Examples
    --------
    >>> from daskrf.molecules import clean_smiles
    >>> clean_smiles(" C[C@H](F)Cl |$;star;;$,&1:1| "), clean_smiles("CCO |(1,2,;),r|")
    ('C[C@H](F)Cl |&1:1|', 'CCO')
    """
    text = text.strip(" \t")
    if (extension := _EXTENSION.search(text)) is None:
        return text
    smiles = text[: extension.start()]
    groups = _GROUP.findall(_TEXTS.sub("", extension[1]).partition("|")[0]) if "@" in smiles else []
    return f"{smiles} |{','.join(groups)}|" if groups else smiles


def has_groups(smiles: str) -> bool:
    """Return whether a text of `clean_smiles` has enhanced stereo groups.

    Examples
    --------
    >>> has_groups("C[C@H](F)Cl |&1:1|"), has_groups("C[C@H](F)Cl")
    (True, False)
    """
    return GROUPS_MARK in smiles

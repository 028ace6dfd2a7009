"""Scores of docking programs: where to find them, which program wrote them, and which values are better."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from daskrf.tables.values.names import normalised


@dataclass(frozen=True)
class DockingScore:
    """A score that a docking program writes.

    Attributes
    ----------
    program : str
        Its name, for messages.
    larger : bool
        Whether larger values are better.
    """

    program: str
    larger: bool = False

    def words(self) -> str:
        """Return which program wrote the score, and which values are better."""
        return f"score of {self.program}, {'higher' if self.larger else 'lower'} is better"


_GLIDE: Final = DockingScore("Glide")
_GNINA: Final = DockingScore("Gnina", larger=True)
_GOLD: Final = DockingScore("GOLD", larger=True)
_RDOCK: Final = DockingScore("rDock")
# By name as `normalised` gives it; of one program, the one that it ranks by comes first.
_SCORES: Final = {
    "ridockingscore": _GLIDE,
    "riglidegscore": _GLIDE,
    "glidegscore": _GLIDE,
    "xpgscore": _GLIDE,
    "remarkvinaresult": DockingScore("Vina, from REMARK"),
    "vinaresult": DockingScore("Vina"),
    "vinascore": DockingScore("Vina"),
    "vinaaffinity": DockingScore("Vina"),
    "outdocktotal": DockingScore("DOCK 3, from OUTDOCK"),
    "goldfitness": _GOLD,
    "meekofreeenergy": DockingScore("Vina or AutoDock, from the JSON of Meeko"),
    "userestimatedfreeenergyofbinding": DockingScore("AutoDock, from USER"),
    "unidockresultenergy": DockingScore("Uni-Dock"),
    "remarknormalizedfreeenergypredictedbyidock": DockingScore("idock, from REMARK"),
    "remarkscore": DockingScore("LeDock, from REMARK"),
    "minimizedaffinity": DockingScore("Smina or Gnina"),
    "remarkminimizedaffinity": DockingScore("Smina or Gnina, from REMARK"),
    "cnnscore": _GNINA,
    "cnnaffinity": _GNINA,
    "cnnvs": _GNINA,
    "remarkcnnscore": _GNINA,
    "remarkcnnaffinity": _GNINA,
    "gridscore": DockingScore("DOCK"),
    "commentgridscore": DockingScore("DOCK, from Comment"),
    "continuousscore": DockingScore("DOCK"),
    "gbsascore": DockingScore("DOCK"),
    "amberscore": DockingScore("DOCK"),
    "chemgauss4score": DockingScore("FRED"),
    "fredchemgauss4score": DockingScore("FRED"),
    "hybridchemgauss4score": DockingScore("HYBRID"),
    "goldplpfitness": _GOLD,
    "goldgoldscorefitness": _GOLD,
    "goldchemscorefitness": _GOLD,
    "goldaspfitness": _GOLD,
    "scoreinter": _RDOCK,
}
_RANKED = (_GLIDE, _RDOCK)  # programs that rank by one of their several scores
# Columns beside docking scores that are not labels themselves: terms of the score, and simple properties.
_BESIDE = re.compile(
    r"minimizedrmsd|cnnaffinityvariance|rmsd\w*|torsdo\w*|score\w+|grid\w+|internalenergy\w*|cluster\w*|rank|"
    r"rbt\w*|gold\w+|glide\w+|potentialenergy\w*|meeko\w+|ligandefficiency\w*|numberof\w+|contactscore|"
    r"mw|molwt|molweight|molecularweight|weight|mass|[acsmx]?logp|mollogp|wlogp|tpsa|psa|qed|fsp3|sascore|"
    r"(?:num|n)?(?:hbd|hba|hdonors|hacceptors|hbonddonors|hbondacceptors|hbonddonorcount|hbondacceptorcount)|"
    r"(?:num|n)?(?:rotbonds?|rotatablebonds?|rotors?|rot|rings?|ringcount|heavyatoms?|heavyatomcount|atoms)|"
    r"(?:formal|net|total)?charge"
)
_POSES = frozenset(["pose", "poseid", "posenumber", "poserank", "iglideposenum", "iiglideposenum"])
_SCHRODINGER = re.compile(r"[rib]_(?:i|glide|epik|lp|mmod|qp|psp|m|st)_\w+")

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


def _line(text: str, after: str = "") -> re.Pattern[str]:
    """Return the pattern of a line with a text and a number, or with what stands in place of one."""
    other = r"\S+" if text.endswith((":", "=")) else r"[+-]?(?:nan|inf)\w*|\*+"
    return re.compile(
        rf"^[ \t#]*(?:\d+\s+)?{text}[ \t]*(?:(?P<number>{_NUMBER}){after}(?![\w.])|(?P<other>{other}))",
        re.MULTILINE,
    )


_WITHIN: Final = {  # a property of several lines, and what may stand in one of them
    "REMARK": {
        "VINA RESULT": _line("VINA RESULT:"),
        "minimizedAffinity": _line("minimizedAffinity"),
        "CNNscore": _line("CNNscore"),
        "CNNaffinity": _line("CNNaffinity"),
        "NORMALIZED FREE ENERGY PREDICTED BY IDOCK": _line("NORMALIZED FREE ENERGY PREDICTED BY IDOCK:"),
        "Score": _line(r"Cluster\s+\d+ of Poses:\s+\d+\s+Score:", r"[ \t]*kcal/mol"),
    },
    "USER": {"Estimated Free Energy of Binding": _line(r"Estimated Free Energy of Binding\s*=")},
    "Uni-Dock RESULT": {"ENERGY": _line("ENERGY=")},
    "Comment": {"Grid_Score": _line("Grid[_ ]Score:")},
}
_SMILES = re.compile(r"^[ \t]*SMILES[ \t]+(?!IDX[ \t])(\S+)[ \t]*$", re.MULTILINE)  # as Meeko leaves it
_MEEKO: Final = "meeko"
SMILES_WITHIN: Final = "REMARK SMILES"
"""Name under which `scores_within` returns the SMILES that Meeko leaves among the remarks."""
_ENDINGS = (".gz", ".bz2", ".zst", ".log", ".txt", ".pdbqt", ".sdf", ".mol2", ".pdb", ".dlg")
_OUT = re.compile(r"(?<=.)[_.-](?:out|docked|vina|smina|gnina|poses|log)$", re.IGNORECASE)


def known_score(name: str, names: Sequence[str] = ()) -> DockingScore | None:
    """Return the docking score that a column holds by its name, or None.

    Parameters
    ----------
    name : str
    names : sequence of str
        Of all columns: "SCORE" is rDock's where "SCORE.INTER" stands beside it.

    Examples
    --------
    >>> known_score("docking score", ["Title", "docking score", "glide gscore"]).program
    'Glide'
    >>> known_score("r_i_docking_score").words(), known_score("CNNaffinity").words(), known_score("score")
    ('score of Glide, lower is better', 'score of Gnina, higher is better', None)
    """
    plain = normalised(name)
    if plain == "dockingscore" and any(normalised(other).startswith("glide") for other in names):
        return _GLIDE  # in the tables that Maestro exports
    if plain == "score":
        return _RDOCK if any(other == "SCORE.INTER" for other in names) else None
    return _SCORES.get(plain)


def hold_poses(names: Sequence[str], targets: Sequence[str]) -> bool:
    """Return whether several values of a molecule are those of its poses, not repeated measurements.

    They are if a docking program wrote all targets, judging by their names, or a column numbers poses.

    Parameters
    ----------
    names : sequence of str
        Of all columns.
    targets : sequence of str
        Of those that are learned.

    Examples
    --------
    >>> hold_poses(["name", "CNNaffinity"], ["CNNaffinity"]), hold_poses(["name", "pIC50"], ["pIC50"])
    (True, False)
    >>> hold_poses(["Title", "pose number", "my score"], ["my score"])
    True
    """
    if any(normalised(name) in _POSES for name in names):
        return True
    return bool(targets) and all(known_score(name, names) is not None for name in targets)


def chosen_score(names: Sequence[str], positions: Sequence[int]) -> int | None:
    """Return the position of the docking score among some numeric columns, or None if that is not clear.

    It is the only one, or the one that the program ranks by; beside it are parts of it, and properties such
    as weight and logP, but nothing else that might be meant.

    Examples
    --------
    >>> chosen_score(["MW", "r_i_glide_gscore", "r_i_docking_score", "r_i_glide_emodel"], range(4))
    2
    >>> chosen_score(["minimizedAffinity", "CNNscore"], [0, 1]), chosen_score(["pIC50", "Grid_Score"], [0, 1])
    (None, None)
    """
    by_position = {k: known_score(names[k], names) for k in positions}
    scores = {k: score for k, score in by_position.items() if score is not None}
    others = [names[k] for k in positions if k not in scores]
    if not scores or not all(
        _BESIDE.fullmatch(normalised(name)) or _SCHRODINGER.fullmatch(name) for name in others
    ):
        return None
    if len(scores) == 1:
        return next(iter(scores))
    (program, *more) = dict.fromkeys(scores.values())
    if more or program not in _RANKED:
        return None
    order = ["score", "dockingscore", *_SCORES]
    return min(scores, key=lambda k: order.index(normalised(names[k])))


def molecule_of_file(path: PurePath) -> str:
    """Return the molecule that a file of poses is called like.

    Endings are left out, and words such as the "_out" that Vina adds to the name of its input.

    Examples
    --------
    >>> molecule_of_file(PurePath("docked/ZINC12_out.pdbqt.gz")), molecule_of_file(PurePath("Z-1.2.log"))
    ('ZINC12', 'Z-1.2')
    """
    name = path.name
    while name.lower().endswith(_ENDINGS) and name.rpartition(".")[0]:
        name = name.rpartition(".")[0]
    return _OUT.sub("", name)


def scores_within(properties: Mapping[str, str]) -> dict[str, str]:
    r"""Return the scores inside properties of several lines, or of JSON, each under a name of its own.

    The SMILES of a molecule that Meeko prepared is returned, too, if the remarks have it.

    Open Babel writes the remarks of a PDBQT file to one property, REMARK; Meeko writes its JSON to one called
    meeko. A score that occurs there with different values is ambiguous, and left out.

    Examples
    --------
    >>> scores_within({"REMARK": " VINA RESULT:    -7.100      0.000      0.000\n INTER:  -9.1"})
    {'REMARK VINA RESULT': '-7.100'}
    >>> scores_within({"meeko": '{"is_sidechain": [false], "free_energy": -7.1}'})
    {'meeko free_energy': '-7.1'}
    """
    scores: dict[str, str] = {}
    for place, kinds in _WITHIN.items():
        if place in properties:
            for kind, pattern in kinds.items():
                values = {match["number"] or match["other"] for match in pattern.finditer(properties[place])}
                if len(values) == 1:
                    scores[f"{place} {kind}"] = values.pop()
    if len(smiles := set(_SMILES.findall(properties.get("REMARK", "")))) == 1:
        scores[SMILES_WITHIN] = smiles.pop()
    if _MEEKO in properties:
        try:
            data = json.loads(properties[_MEEKO], parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            return scores
        value = data.get("free_energy") if isinstance(data, dict) else None
        if isinstance(value, str) and re.fullmatch(_NUMBER, value):
            scores[f"{_MEEKO} free_energy"] = value
    return scores

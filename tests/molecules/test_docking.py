"""Scores of docking programs are found where they stand, and it is said whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

import daskrf
from daskrf.errors import InputError
from daskrf.measurements import label_words, read_labels
from daskrf.tables import check_first_lines, lay_out, scan
from daskrf.tables.frames import molecule_table
from daskrf.tables.values.conventions import convention_of
from daskrf.tables.values.values import Scale
from tests.molecules.helpers import rows_of, write

VINA = (
    " VINA RESULT:  {score:8.3f}      0.000      0.000\n INTER + INTRA:         -9.114\n INTER:    -8.500\n"
    " Name = lig\n 3 active torsions:\n  x       y       z     vdW  Elec       q    Type"
)
OPEN_BABEL = {"MODEL": " {pose}", "REMARK": VINA, "TORSDO": "F 3"}
MEEKO = {
    "meeko": '{{"is_sidechain": [false], "free_energy": {score}, "intermolecular_energy": -9.1, '
    '"internal_energy": -0.6, "cluster_size": [3], "cluster_id": 1, "rank_in_cluster": 1}}'
}
RDOCK = {
    "SCORE": "{score}",
    "SCORE.INTER": "-30.1",
    "SCORE.INTER.VDW": "-28.4",
    "SCORE.INTRA": "1.2",
    "SCORE.norm": "-0.9",
    "Rbt.Current_Directory": "/tmp",
}
GLIDE = {
    "r_i_glide_gscore": "-6.5",
    "r_i_docking_score": "{score}",
    "r_i_glide_emodel": "-48.1",
    "i_i_glide_posenum": "11{pose}",
    "r_epik_State_Penalty": "0.02",
}
PROGRAMS: dict[str, tuple[Mapping[str, str], str, str, str]] = {
    "Open Babel": (OPEN_BABEL, "REMARK VINA RESULT", "Vina, from REMARK", "lower"),
    "Meeko": (MEEKO, "meeko free_energy", "Vina or AutoDock, from the JSON of Meeko", "lower"),
    "Smina": (
        {"minimizedAffinity": "{score}", "minimizedRMSD": "0.{pose}"},
        "minimizedAffinity",
        "Smina or Gnina",
        "lower",
    ),
    "Smina by Open Babel": (
        {"REMARK": " minimizedAffinity {score}\n minimizedRMSD 1.1"},
        "REMARK minimizedAffinity",
        "Smina or Gnina, from REMARK",
        "lower",
    ),
    "Glide": (GLIDE, "r_i_docking_score", "Glide", "lower"),
    "DOCK": (
        {
            "Grid_Score": "{score}",
            "Grid_vdw_energy": "-40.1",
            "Internal_energy_repulsive": "11.2",
            "MW": "320",
        },
        "Grid_Score",
        "DOCK",
        "lower",
    ),
    "rDock": (RDOCK, "SCORE", "rDock", "lower"),
    "Uni-Dock": (
        {"Uni-Dock RESULT": "ENERGY= {score:8.3f}  LOWER_BOUND=    0.000  UPPER_BOUND=  0.000\nINTER= -9"},
        "Uni-Dock RESULT ENERGY",
        "Uni-Dock",
        "lower",
    ),
    "AutoDock": (
        {"USER": "    Run = 3\n    Estimated Free Energy of Binding    = {score:7.2f} kcal/mol  [=(1)+(2)]"},
        "USER Estimated Free Energy of Binding",
        "AutoDock, from USER",
        "lower",
    ),
    "LeDock": (
        {"REMARK": " Cluster   1 of Poses:  1  Score: {score:.2f} kcal/mol"},
        "REMARK Score",
        "LeDock, from REMARK",
        "lower",
    ),
}
SCORES = (-7.1, -6.25, -8.5)


def sd_file(path: Path, properties: Mapping[str, str], scores: tuple[float, ...] = SCORES) -> Path:
    """Write alcohols A, B, C, ... with properties, whose braces take the score and the number of the pose."""
    parts = []
    for k, score in enumerate(scores):
        molecule = Chem.MolFromSmiles("C" * (k + 1) + "O")
        molecule.SetProp("_Name", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[k])
        values = {name: text.format(score=score, pose=k % 2 + 1) for name, text in properties.items()}
        parts += [
            Chem.MolToMolBlock(molecule),
            *(f">  <{name}>\n{text}\n\n" for name, text in values.items()),
            "$$$$\n",
        ]
    return write(path, "".join(parts))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_score_is_found_where_it_stands(program: str, tmp_path: Path) -> None:
    properties, name, whose, better = PROGRAMS[program]
    path = sd_file(tmp_path / "poses.sdf", properties)
    labels = read_labels(path)
    assert (labels.names, labels.keys.to_pylist(), labels.y.ravel().tolist()) == (
        (name,),
        ["A", "B", "C"],
        list(SCORES),
    )
    assert f"target '{name}' (score of {whose}, {better} is better)" in label_words(path)
    if name != "SCORE":
        convention = convention_of(Scale(name, name), -7.0)
        assert convention is not None
        assert convention.direction == "minimize"


@pytest.mark.parametrize("name", ["CNNscore", "CNNaffinity", "CNN_VS", "Gold.PLP.Fitness"])
def test_scores_of_networks_and_fitness_are_to_be_maximized(name: str, tmp_path: Path) -> None:
    convention = convention_of(Scale(name, name), 0.7)
    assert convention is not None
    assert convention.direction == "maximize"
    path = sd_file(tmp_path / "poses.sdf", {name: "0.{pose}"})
    assert "higher is better" in label_words(path)
    assert convention_of(Scale("CNNaffinity_variance", "CNNaffinity_variance"), 0.7) is None


def test_which_of_several_scores_is_meant_has_to_be_said(tmp_path: Path) -> None:
    path = sd_file(
        tmp_path / "gnina.sdf",
        {"minimizedAffinity": "{score}", "CNNscore": "0.{pose}", "CNNaffinity": "5.{pose}"},
    )
    with pytest.raises(InputError) as raised:
        read_labels(path)
    message = str(raised.value)
    assert "several numeric columns (minimizedAffinity, CNNscore, CNNaffinity" in message
    assert "'minimizedAffinity' is the score of Smina or Gnina, lower is better" in message
    assert "'CNNaffinity' is the score of Gnina, higher is better" in message
    assert read_labels(path, targets=["CNNaffinity"]).y.ravel().tolist() == [5.1, 5.2, 5.1]
    measured = sd_file(tmp_path / "measured.sdf", {**GLIDE, "pIC50": "6.{pose}"})
    with pytest.raises(InputError, match=r"several numeric columns .*pIC50"):
        read_labels(measured)


def test_columns_of_a_csv_file_are_known_by_name(tmp_path: Path) -> None:
    path = write(
        tmp_path / "glide.csv", "title,r_i_glide_gscore,r_i_docking_score,MW\nA,-7,-6.5,300\nB,-8,-7.5,310\n"
    )
    assert read_labels(path).y.ravel().tolist() == [-6.5, -7.5]
    path = write(tmp_path / "plain.csv", "title,SCORE,age\nA,-7,30\nB,-8,40\n")
    with pytest.raises(InputError, match="several numeric columns"):
        read_labels(path)


def test_a_score_that_stands_twice_in_a_remark_is_not_guessed(tmp_path: Path) -> None:
    twice = {"REMARK": " VINA RESULT: -7.1 0 0\n VINA RESULT: -6.9 1 2", "other": "{score}"}
    labels = read_labels(sd_file(tmp_path / "a.sdf", twice))
    assert labels.names == ("other",)
    damaged = {"meeko": '{{"free_energy": "low"', "other": "{score}"}
    assert read_labels(sd_file(tmp_path / "b.sdf", damaged)).names == ("other",)


def test_libraries_and_molecules_in_memory_have_the_column_too(tmp_path: Path) -> None:
    path = sd_file(tmp_path / "poses.sdf", OPEN_BABEL)
    format = daskrf.TableFormat(extra=("REMARK VINA RESULT",))
    ((_, layout),) = lay_out(path, format)
    assert layout.extra[0][0] == "REMARK VINA RESULT"
    table = molecule_table(Chem.SDMolSupplier(str(path)))
    assert table["REMARK VINA RESULT"].to_pylist() == ["-7.100", "-6.250", "-8.500"]


def test_the_smiles_in_a_remark_can_be_read_in_place_of_a_radical(tmp_path: Path) -> None:
    remark = VINA + "\n SMILES CC(N)O\n SMILES IDX 1 1 2 2"
    path = sd_file(tmp_path / "a.sdf", {"REMARK": remark}, (-7.1,))
    assert rows_of(scan(path, daskrf.TableFormat(smiles="REMARK SMILES")))[0][3:] == ("A", "CC(N)O")
    labels = read_labels(path, key="structure", key_column="REMARK SMILES")
    assert (labels.keys.to_pylist(), labels.y.ravel().tolist()) == (["CC(N)O"], [-7.1])


def test_poses_are_learned_by_their_score(tmp_path: Path) -> None:
    scores = tuple(np.round(-4 - 0.3 * np.arange(24) + 0.1 * np.cos(np.arange(24)), 3))
    path = sd_file(tmp_path / "poses.sdf", OPEN_BABEL, scores)
    report = daskrf.fit(path, output=tmp_path / "m", quick=True, direction="minimize")
    assert "REMARK VINA RESULT (to minimize)" in str(report)
    predicted = daskrf.predict(tmp_path / "m", ["CCCO"]).to_pandas()["mean"]
    assert abs(float(predicted[0]) - scores[2]) < 1


def test_polyradicals_are_counted(tmp_path: Path) -> None:
    rows = "".join(
        f"{text} {name}\n" for text, name in (("[CH2]C[O]", "A"), ("[CH2][N]", "B"), ("c1cc[nH]c1", "C"))
    )
    path = write(tmp_path / "a.smi", rows)
    (note,) = check_first_lines(lay_out(path))
    assert note.startswith(
        f"2 molecules among the first 3 lines of {path} have unpaired electrons (radicals), such as"
    )
    assert "export the poses with Meeko (mk_export.py)" in note
    assert (
        check_first_lines(lay_out(write(tmp_path / "b.smi", "[CH3][CH2][OH] A\n[2H]C B\n[Na+].[Cl-] C\n")))
        == []
    )
    labels = write(tmp_path / "l.csv", "smiles,y\n[CH2]C[O],1\n[CH2]C,2\nCCO,3\n")
    (note,) = read_labels(labels, key="structure").notes
    assert note.startswith(
        "2 molecules of 3 with labels have unpaired electrons (radicals), such as '[CH2]C[O]'"
    )

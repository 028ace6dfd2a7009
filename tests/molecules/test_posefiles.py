"""What docking programs write is read as they write it, one file or many, and the best pose counts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import daskrf
from daskrf.errors import InputError
from daskrf.measurements import label_words, read_labels
from daskrf.tables.posefiles import pose_tables
from tests.molecules.helpers import write

ATOMS = """ROOT
ATOM      1  C   UNL     1      -0.230  -0.376   0.842  1.00  0.00    +0.251 C
ENDROOT
TORSDOF 0
"""
GNINA = """              _
gnina v1.1   Built Dec 18 2023.
Commandline: gnina -r rec.pdb -l Z9.sdf -o out.sdf
Using random seed: 1

0%   10   20   30   40   50   60   70   80   90   100%
|----|----|----|----|----|----|----|----|----|----|
 | pose 0 | initial pose not within box

mode |  affinity  |  intramol  |    CNN     |   CNN
     | (kcal/mol) | (kcal/mol) | pose score | affinity
-----+------------+------------+------------+----------
    1       -3.16       -0.58       0.8300      3.282
    2       -3.55       -0.19       0.8193      3.347
"""
OUTDOCK = """ DOCK 3.8 parameter
 open the file:
 /db/a.db2.gz
  mol#           id_num     flexiblecode  matched    nscored    time hac    setnum    matnum   rank charge    elect +  gist +   vdW + psol +  asol + tStrain + mStrain + rec_d + r_hyd =    Total
     1 ZINC000000000001      1.1.1.1.1.1     1202      26208   11.02  13         7       418      1     1    -12.10   0.00  -20.55   4.10   -1.15    0.00    0.00    0.00    0.00    -29.70
     1 ZINC000000000001      1.1.1.1.1.1     1202      26208   11.02  13         9       511      2     1    -10.10-1000.00  -20.55   4.10   -1.15    0.00    0.00    0.00    0.00  -1027.70
     2 ZINC000000000002       0          0    0.12  no_match
 close the file:
 /db/a.db2.gz
  we reached the end of the file
"""  # noqa: E501
DOCK6 = """-----------------------------------
Molecule: ZINC1

 Elapsed time for docking:\t1.2
 Anchors:\t\t1
                          Grid_Score:          -34.400000
                    Continuous_Score:          -31.100000
-----------------------------------
Molecule: ZINC2

 ERROR:  Could not complete growth.
"""
GOLD = """# File containing a listing of the fitness of the top-ranked
# individual for each ligand docked in GOLD.
#
# Format is:
#
#     Score     S(PLP)   S(hbond)     time                       File name                Ligand name

     48.93     -40.46       2.86    1.999  '//home/virtual screening/gold_soln_m1_4.sdf'  'CC 00401|lig|sdf|1'
     48.98     -43.05       2.00    2.000  '//home/virtual screening/gold_soln_m2_2.sdf'     'CC 00413'
"""


def poses(scores: list[float], smiles: str = "", name: str = "") -> str:
    """Return a file of Vina."""
    remarks = f"REMARK SMILES {smiles}\nREMARK SMILES IDX 1 1\n" * bool(smiles)
    remarks += f"REMARK  Name = {name}\n" * bool(name)
    return "".join(
        f"MODEL {k}\nREMARK VINA RESULT: {y:9.3f}      0.000      0.000\n{remarks}{ATOMS}ENDMDL\n"
        for k, y in enumerate(scores, 1)
    )


def read(path: Path, **options: object) -> dict[str, list[float]]:
    """Return the labels of each key."""
    labels = read_labels(path, **options)
    keys = labels.keys.to_pylist()
    values: dict[str, list[float]] = {}
    for k, y in zip(labels.index.tolist(), labels.y[:, 0].tolist(), strict=True):
        values.setdefault(keys[k], []).append(y)
    return values


def test_poses_are_called_by_a_remark_or_like_the_file(tmp_path: Path) -> None:
    many = write(tmp_path / "all.pdbqt", poses([-7.1, -6.5], name="A") + poses([-9.0], name="B"))
    assert read(many) == {"A": [-7.1, -6.5], "B": [-9.0]}
    alone = tmp_path / "Z1_out.pdbqt.gz"
    alone.write_bytes(gzip.compress(poses([-7.1, -6.5], "CCO").encode()))
    assert read(alone) == {"Z1": [-7.1, -6.5]}
    assert read(alone, key="smiles") == {"CCO": [-7.1, -6.5]}
    assert "called as in REMARK Name, or else like the file" in label_words(alone)
    single = write(tmp_path / "single", "REMARK VINA RESULT:  -7.5  0.000  0.000\n" + ATOMS)
    assert read(single) == {"single": [-7.5]}


def test_molecules_without_names_are_not_mixed_up(tmp_path: Path) -> None:
    for other in (poses([-9.0]), poses([-9.0], "CCN"), poses([-9.0]).replace("MODEL 1", "MODEL 2")):
        both = write(tmp_path / "both.pdbqt", poses([-7.1], "CCO") + other)
        with pytest.raises(InputError, match="another molecule without a name: give one file per molecule"):
            read_labels(both)


def test_logs_have_a_column_for_each_score(tmp_path: Path) -> None:
    log = write(tmp_path / "Z9.log", GNINA)
    with pytest.raises(InputError, match="'CNNaffinity' is the score of Gnina, higher is better"):
        read_labels(log)
    assert read(log, targets=["CNNaffinity"]) == {"Z9": [3.282, 3.347]}
    assert read(log, targets=["minimizedAffinity"]) == {"Z9": [-3.16, -3.55]}
    with pytest.raises(InputError, match="the table of another molecule without a name"):
        read_labels(write(tmp_path / "two.log", GNINA + GNINA), targets=["CNNscore"])


def test_totals_stand_in_the_last_ten_characters(tmp_path: Path) -> None:
    path = write(tmp_path / "OUTDOCK", OUTDOCK)
    with pytest.raises(InputError, match="line 7: 'OUTDOCK Total' is missing"):
        read_labels(path)
    labels = read_labels(path, drop_non_numbers=True)
    assert (labels.keys.to_pylist(), labels.y.ravel().tolist()) == (["ZINC000000000001"], [-29.7, -1027.7])
    assert labels.dropped == 1
    starred = write(tmp_path / "stars", OUTDOCK.replace("  -1027.70", "**********"))
    with pytest.raises(InputError, match="no total score in the last 10 characters"):
        read_labels(starred, drop_non_numbers=True)


def test_reports_of_dock_6_and_lists_of_gold(tmp_path: Path) -> None:
    report = write(tmp_path / "dock.out", DOCK6)
    for name, value in (("Grid_Score", -34.4), ("Continuous_Score", -31.1)):
        assert read(report, targets=[name], drop_non_numbers=True) == {"ZINC1": [value]}
    gold = write(tmp_path / "bestranking.lst", GOLD)
    assert read(gold) == {"CC 00401": [48.93], "CC 00413": [48.98]}
    assert "score of GOLD, higher is better" in label_words(gold)


def test_tables_of_maestro_have_a_docking_score(tmp_path: Path) -> None:
    table = "Title,docking score,glide gscore,glide emodel,Potential Energy-OPLS4\nA,-7.2,-7.3,-50,3.1\n"
    path = write(tmp_path / "glide.csv", table + "A,-6.8,-6.9,-49,4.0\nB,-5.1,-5.2,-40,2.2\n")
    assert read(path) == {"A": [-7.2, -6.8], "B": [-5.1]}
    assert "target 'docking score' (score of Glide, lower is better)" in label_words(path)


def test_many_files_are_one_table_and_an_empty_one_a_failure(tmp_path: Path) -> None:
    texts = {"a_out.pdbqt": poses([-7.1, -6.5], "CCO"), "b_out.pdbqt": poses([-8.0]), "c_out.pdbqt": ""}
    files = [write(tmp_path / name, text) for name, text in texts.items()]
    table = pa.concat_tables(pose_tables(files))
    columns = ["name", "smiles", "pose", "REMARK VINA RESULT"]
    assert table.select(columns).to_pydict() == {
        "name": ["a", "a", "b", "c"],
        "smiles": ["CCO", "CCO", None, None],
        "pose": ["1", "2", "1", None],
        "REMARK VINA RESULT": ["-7.100", "-6.500", "-8.000", None],
    }
    with pytest.raises(
        InputError, match=r"There are 2 of the format pdbqt .* and 1 of the format docking log"
    ):
        list(pose_tables([*files, write(tmp_path / "a.log", GNINA)]))
    with pytest.raises(
        InputError, match=r"box\.txt is one of 3 files and holds no poses of a docking program"
    ):
        list(pose_tables([*files, write(tmp_path / "box.txt", "center_x = 3\n")]))
    with pytest.raises(InputError, match="All files of poses are empty"):
        list(pose_tables(files[2:]))


def test_what_is_wrong_with_a_pose_is_told_by_its_file(tmp_path: Path) -> None:
    whole = poses([-7.1, -6.5, -6.2], "CCO")
    cut = whole[: whole.rindex("ATOM")]
    broken = {
        "nan": (
            whole.replace("   -6.500", "      nan"),
            r"b_out\.pdbqt, pose 2: .* holds 'nan', which is not",
        ),
        "stars": (
            whole.replace("-6.500", "******"),
            r"b_out\.pdbqt, pose 2: .* holds '\*\*\*\*\*\*', which is",
        ),
        "none": (
            whole.replace("VINA RESULT", ""),
            r"b_out\.pdbqt, pose 1: .* is missing; dock .* by a pattern",
        ),
        "cut": (cut, r"b_out\.pdbqt cannot be read \(the pose in line 19: the file ends within this model"),
    }
    for name, (text, message) in broken.items():
        folder = tmp_path / name
        folder.mkdir()
        write(folder / "a_out.pdbqt", poses([-8.0]))
        single = write(folder / "b_out.pdbqt", text)
        table = tmp_path / f"{name}.parquet"
        pq.write_table(pa.concat_tables(pose_tables(sorted(folder.iterdir()))), table)
        with pytest.raises(InputError, match=message):
            read_labels(table)
        if name != "none":
            with pytest.raises(InputError, match=r"b_out\.pdbqt, the pose in line 1[09]"):
                read_labels(single)
        assert "PDBQT of docked poses" in label_words(table)
    labels = read_labels(tmp_path / "cut.parquet", accept_rejects=True)
    assert labels.y.ravel().tolist() == [-8.0, -7.1, -6.5]
    assert labels.unread[0] == 1
    assert f"{tmp_path}/cut/b_out.pdbqt: the pose in line 19" in labels.unread[1]


def test_the_best_pose_counts_unless_all_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "poses").mkdir()
    for k in range(12):
        write(tmp_path / "poses" / f"m{k}_out.pdbqt", poses([-5 - k % 5, -4.0 - k % 3], "C" * (k + 1) + "O"))
    report = daskrf.fit(tmp_path / "poses", output=tmp_path / "m", direction="minimize", quick=True)
    assert sorted(report.labels.y.ravel().tolist()) == sorted(
        min(-5.0 - k % 5, -4.0 - k % 3) for k in range(12)
    )
    assert "further labels of these molecules: 12 (the best of each counts)" in str(report)
    assert "--repeats all, mean or median takes another" in str(report)
    every = daskrf.fit(
        f"{tmp_path}/poses/*.pdbqt", output=tmp_path / "all", direction="minimize", quick=True, repeats="all"
    )
    assert every.labels.matched == 24
    more = write(tmp_path / "more_out.pdbqt", poses([-6.0, -9.5], "c1ccccc1O"))
    table = pa.table({"smiles": ["CCO", "CCN", "CCC"], "score": [-5.0, -6.0, -5.5]})
    daskrf.fit(table, output=tmp_path / "named", direction="minimize", quick=True)
    with pytest.raises(InputError, match=r"is the same quantity, name it with --target 'REMARK VINA RESULT'"):
        daskrf.add(tmp_path / "named", more)
    assert (
        daskrf.add(tmp_path / "named", more, target="REMARK VINA RESULT", accept_outliers=True).n_added == 1
    )
    added = daskrf.add(tmp_path / "m", more)
    assert (added.n_added, added.merged, added.repeats_as) == (1, 1, "best")
    assert "best so far -9.5," in str(added)

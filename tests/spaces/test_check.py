"""What `check_space` finds in spaces."""

from __future__ import annotations

import csv
import gzip
import json

import pytest

import daskrf
from daskrf.cli.app import run
from daskrf.errors import InputError
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

KETAL = "[NH2:1][c:2][c:3][NH2:4].O=[C:5]([*:6])[*:7]>>[c:2]1[c:3][N:4][C:5]([*:6])([*:7])[N:1]1"


def test_all_is_equal(tmp_path):
    report = daskrf.check_space(write_space(tmp_path / "s", SPACES), sample=10)
    assert report.exit_code == 0
    assert [reaction.name for reaction in report.reactions] == list(SPACES)
    assert all(reaction.combinations == 10 and reaction.products for reaction in report.reactions)
    products = sum(reaction.products for reaction in report.reactions)
    assert f"{products:,} products of {len(SPACES)} reactions" in str(report)


def test_what_is_refused_is_named(tmp_path, capsys):
    space = write_space(
        tmp_path / "s",
        {
            "amide": (AMIDE, [[*AMINES, "CCO"], ACIDS]),
            "ketal": (KETAL, [["CN"], ["CC(=O)O"]]),
            "empty": (AMIDE, [["CCC"], ["CC(=O)O"]]),
        },
    )
    assert run(["check-space", str(space), "--sample", "3", "--kind", "morgan:2"]) == 1
    printed = capsys.readouterr().out
    assert "reaction amide, slot 0: 2 blocks left out, such as b6: it does not match its slot" in printed
    assert "reaction ketal is refused: slot 1 gives a ring an atom that is bound to two" in printed
    assert "reaction empty is refused: no block of slot 0 has a synthon" in printed
    assert "products of 1 reaction;" in printed
    assert "morgan:2 counts" in printed


def test_a_difference_refuses_the_reaction(tmp_path, monkeypatch):
    monkeypatch.setattr("daskrf.spaces.comparison._same", lambda a, b: False)
    report = daskrf.check_space(write_space(tmp_path / "s", {"amide": (AMIDE, [AMINES, ACIDS])}))
    assert report.exit_code == 1
    assert "is refused: the fingerprint of" in str(report)
    assert report.reactions[0].products == 0


def test_json_has_everything(tmp_path, capsys):
    space = write_space(tmp_path / "s", {"amide": (AMIDE, [["CN", "CCO"], ["CC(=O)O"]])})
    assert run(["check-space", str(space), "--json"]) == 0
    (reaction,) = json.loads(capsys.readouterr().out)["reactions"]
    assert reaction["products"] == 1
    assert reaction["slots"][0] == {
        "blocks": 2,
        "synthons": 1,
        "refused": {"it does not match its slot": ["b1"]},
    }


@pytest.mark.parametrize("options", [{"sample": 0}, {"spec": daskrf.FingerprintSpec("atompair")}])
def test_bad_options_are_refused_before_anything_is_read(tmp_path, options):
    with pytest.raises(InputError, match=r"sample|not sums over synthons"):
        daskrf.check_space(tmp_path / "nothing", **options)


def test_real_reactions(data_dir, tmp_path):
    """Every 150th block of each slot of 13 reactions of a real space."""
    if not (real := data_dir / "real_space").is_dir():
        pytest.skip(f"no {real}")
    for name in ("blocks", "slots"):
        text = gzip.decompress((real / f"{name}.csv.gz").read_bytes()).decode()
        header, *rows = csv.reader(text.splitlines())
        lines = rows if name == "blocks" else rows[::150]
        (tmp_path / f"{name}.csv").write_text("\n".join(map(",".join, [header, *lines])) + "\n")
    (tmp_path / "reactions.tsv").write_bytes((real / "reactions.tsv").read_bytes())
    spec = daskrf.FingerprintSpec(["morgan:1", "morgan:2"])
    report = daskrf.check_space(tmp_path, spec=spec, sample=50, seed=7)
    assert report.exit_code == 0, str(report)
    assert len(report.reactions) == 13
    assert all(reaction.combinations == 50 for reaction in report.reactions)

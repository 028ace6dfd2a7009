"""Batches on plates: every molecule has a well of its own, and controls have theirs."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import daskrf
from daskrf import TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, StoreError
from daskrf.screens.plates import Control, Plates, wells_of


@pytest.mark.parametrize("size", [96, 384])
@pytest.mark.parametrize("seed", range(3))
def test_molecules_take_the_free_wells_in_order(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = (8, 12) if size == 96 else (16, 24)
    wells = [f"{'ABCDEFGHIJKLMNOP'[r]}{c + 1:02d}" for r in range(rows) for c in range(columns)]
    taken = {
        (well, plate): "x"
        for well in rng.choice(wells, 9, replace=False)
        for plate in (None, 1, 2)[seed : seed + 1]
    }
    plates = Plates(size, tuple(Control(well, name, plate) for (well, plate), name in taken.items()))
    order = [(p, w) for p in (1, 2, 3) for w in wells if (w, p) not in taken and (w, None) not in taken]
    table = plates.filled(pa.table({"rank": range(1, size + 51), "well": ["old"] * (size + 50)}))
    assert table.column_names == ["rank", "plate", "well", "well_input"]
    assert list(zip(table["plate"].to_pylist(), table["well"].to_pylist(), strict=True)) == order[: size + 50]
    assert wells_of(size) == wells


def test_a_batch_on_plates(tmp_path: Path) -> None:
    smiles = list(ReactionLibrary().smiles(0, 180))
    labels = {"smiles": smiles[150:], "y": np.arange(30.0).tolist()}
    given = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1, "direction": "maximize"}
    daskrf.fit(labels, output=tmp_path / "m", feature_map=TanimotoMinMaxFeatures(64), **given)
    controls = tmp_path / "controls.csv"
    controls.write_text(
        "\ufeffWell;Compound;Plate;SMILES\na1;DMSO;;CS(C)=O\nH012;DMSO;;CS(C)=O\nB3;staurosporine;2;\n;;;\n"
    )
    batch = daskrf.suggest(
        tmp_path / "m", smiles[:150], tmp_path / "b.xlsx", n=120, plate=96, controls=controls
    )
    places = list(zip(batch.table["plate"].to_pylist(), batch.table["well"].to_pylist(), strict=True))
    assert places[:2] == [(1, "A02"), (1, "A03")]
    assert places[93:95] == [(1, "H11"), (2, "A02")]
    assert len(set(places)) == 120
    assert (1, "B03") in places
    assert (2, "B03") not in places
    assert batch.notes.index(
        "2 plates of 96 wells, filled row by row in the order of rank; 26 molecules on plate 2"
    )
    assert "left to DMSO: A01, H12" in batch.notes
    assert "left to staurosporine: B03 of plate 2" in batch.notes
    openpyxl = pytest.importorskip("openpyxl")
    names, *rows = openpyxl.load_workbook(tmp_path / "b.xlsx").active.iter_rows(values_only=True)
    by_place = {(row[names.index("plate")], row[names.index("well")]): row for row in rows}
    assert len(by_place) == len(rows) == 125  # two controls of each plate and one of the second
    assert list(by_place)[:3] == [(1, "A01"), (1, "A02"), (1, "A03")]
    for place, name in {(1, "A01"): "DMSO", (2, "H12"): "DMSO", (2, "B03"): "staurosporine"}.items():
        filled = {key: cell for key, cell in zip(names, by_place[place], strict=True) if cell is not None}
        structure = {"smiles": "CS(C)=O"} if name == "DMSO" else {}
        assert filled == {"plate": place[0], "well": place[1], "id": name} | structure
    again = daskrf.suggest(tmp_path / "m", smiles[:150], n=120)
    assert again.table["id"].to_pylist() == batch.table["id"].to_pylist()


ALL = "\n".join(wells_of(96))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("well\nA13", "row 2: 'A13' is no well of a plate of 96; correct it"),
        ("well\nI01", "'I01' is no well"),
        ("well\nA1\nA01", "row 3: well A01 has a control already"),
        ("well,plate\nA1,2\nA01,", "row 3: well A01 has a control already"),
        ("well,plate\nA1,0", "'0' is no number of a plate"),
        ("place\nA1", "has no column 'well'"),
        ("", "has no column 'well'"),
        (f"well\n{ALL}", "take all 96 wells"),
        ("w" * 200_000, "is no table of controls"),
        ("well\n" + "w" * 200_000, "is no table of controls"),
    ],
)
def test_controls_that_make_no_sense(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        Plates.of(96, tmp_path / "c.csv")


def test_options_that_make_no_sense(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="A plate has 96 or 384 wells, not 48"):
        Plates.of(48, None)
    with pytest.raises(InputError, match="--controls goes with --plate"):
        Plates.of(None, tmp_path / "c.csv")
    with pytest.raises(StoreError, match=r"cannot read .*c\.csv: no such file"):
        Plates.of(96, tmp_path / "c.csv")
    assert Plates.of(None, None) is None
    assert [*itertools.islice(Plates(96).wells(), 1)] == [(1, "A01")]

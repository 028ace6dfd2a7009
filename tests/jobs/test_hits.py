"""The file of hits: what it says of itself, that it is not written over, and which hits are one molecule."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daskrf import fingerprint, fit, screen, status, verify
from daskrf.errors import InputError, StoreError
from daskrf.jobs.shards import run_shard
from daskrf.models import duplicates, labelled
from daskrf.models.models import read_model
from daskrf.screens import libraryranking, libraryscreen
from tests.jobs.job import FEATURES, data_digests


@pytest.fixture(scope="module")
def made(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store and a model of it."""
    out = tmp_path_factory.mktemp("hits")
    fingerprint(inputs[0], out / "fp", rows_per_partition=150)
    fit(out / "fp", inputs[1], out / "model", feature_map=FEATURES, direction="minimize")
    return out


def about(path: Path) -> dict[str, Any]:
    return json.loads(pq.read_schema(path).metadata[b"daskrf.about"])


def test_hits_say_how_they_were_found(made: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "hits.parquet"
    report = screen(made / "model", inputs[0], path, k=7, acquisition="thompson", seed=3)
    found = about(path)
    assert {
        key: found[key] for key in ("k", "seed", "target", "direction", "source", "rows", "rejected")
    } == {
        "k": 7,
        "seed": 3,
        "target": "score",
        "direction": "minimize",
        "source": "library.smi",
        "rows": report.rows,
        "rejected": 4,
    }
    assert found["model"] == read_model(made / "model").metadata["spec_hash"]
    assert found["acquisition"] == {"rule": "thompson", "maximize": False}
    assert found["notes"] == list(report.notes)


def test_the_same_search_says_that_its_hits_are_there(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in (made / "fp", inputs[0]):
        path = tmp_path / f"{source.name}.parquet"
        first = screen(made / "model", source, path, k=9, acquisition="ucb")
        before = data_digests(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(libraryranking.Tree, "make", None)
            for overwrite in (False, True):
                again = screen(made / "model", source, path, k=9, acquisition="ucb", overwrite=overwrite)
                assert again.notes == (*first.notes, f"{path} already holds exactly these hits")
                assert again.table.equals(first.table)
                same = ("rows", "rejected", "rejects", "acquisition", "target", "direction", "hits")
                assert all(getattr(again, name) == getattr(first, name) for name in same)
        after = {name: digest for name, digest in data_digests(tmp_path).items() if ".log" not in name}
        assert after == {name: digest for name, digest in before.items() if ".log" not in name}


def test_changed_hits_are_neither_shown_again_nor_replaced(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "hits.parquet"
    first = screen(made / "model", made / "fp", path, k=9)
    table = pq.read_table(path)
    row = table.schema.get_field_index("row")
    moved = table.set_column(row, "row", pa.array(table["row"].to_numpy() + 1))
    pq.write_table(moved.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(StoreError, match=r"does not match its CRC32C.*delete it"):
        screen(made / "model", made / "fp", path, k=9)
    with pytest.raises(InputError, match=r"was changed since daskrf wrote it, and is never replaced"):
        screen(made / "model", made / "fp", path, k=9, overwrite=True)
    path.unlink()
    again = screen(made / "model", made / "fp", path, k=9, overwrite=True)
    assert again.table.equals(first.table)
    assert pq.read_table(path).equals(table)


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "k": ({"k": 6}, r"-k \(was 9, now 6\)"),
    "direction": ({"maximize": True}, r"--maximize \(was no, now yes\)"),
    "rule": ({"acquisition": "thompson"}, r"--acquisition \(was greedy, now thompson\)"),
    "std": ({"std": "none"}, r"--std \(was candidates, now none\)"),
    "labelled": ({"exclude_labelled": True}, r"--exclude-labelled \(was no, now yes\)"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_hits_of_another_search_are_kept(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, message = OTHERS[name]
    path = tmp_path / "hits.parquet"
    screen(made / "model", made / "fp", path, k=9)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(libraryscreen, "source_for", None)  # nothing is read
        for shard in (None, "0/2"):
            with pytest.raises(
                StoreError, match=f"{path} holds the hits of another search: .*{message}"
            ) as error:
                run_shard(screen, shard, made / "model", made / "fp", path, **{"k": 9, **options})
            assert "overwrite=True" in str(error.value)
    assert path.read_bytes() == before
    screen(made / "model", made / "fp", path, **{"k": 9, **options}, overwrite=True)
    assert path.read_bytes() != before


def test_hits_of_other_molecules_are_kept(made: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    path, other = tmp_path / "hits.parquet", tmp_path / "other.smi"
    screen(made / "model", inputs[0], path, k=9)
    other.write_text("\n".join(inputs[0].read_text().splitlines()[5:99]))
    with pytest.raises(
        StoreError, match=r"library \(was library.smi with hash \w{12}, now other.smi with hash"
    ):
        screen(made / "model", other, path, k=9)
    report = screen(made / "model", other, path, k=9, overwrite=True)
    assert (report.rejected, report.rejects) == (0, None)
    assert not (tmp_path / "hits.rejects.parquet").exists()


def test_hits_that_do_not_say_how_they_were_found_are_kept(made: Path, tmp_path: Path) -> None:
    """Those of daskrf 0.1, or of which somebody has changed the metadata."""
    path = tmp_path / "hits.parquet"
    screen(made / "model", made / "fp", path, k=9)
    metadata = pq.read_schema(path).metadata
    for known in (None, b"[", b"[]", b'{"k": 9}'):
        pq.write_table(
            pq.read_table(path).replace_schema_metadata(
                {**metadata, b"daskrf.about": known} if known else {b"daskrf": b"hits"}
            ),
            path,
        )
        with pytest.raises(StoreError, match="another search: it does not say which"):
            screen(made / "model", made / "fp", path, k=9)
        with pytest.raises(InputError, match="is never replaced"):
            screen(made / "model", made / "fp", path, k=9, overwrite=True)


def test_a_file_in_place_of_the_rejects_is_kept(made: Path, tmp_path: Path) -> None:
    precious = tmp_path / "hits.rejects.parquet"
    precious.write_text("precious")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"hits\.rejects\.parquet exists and was not written"):
            screen(made / "model", made / "fp", tmp_path / "hits.parquet", overwrite=overwrite)
    assert precious.read_text() == "precious"


@pytest.fixture
def twice(made: Path, inputs: tuple[Path, Path], tmp_path: Path) -> Path:
    """The library with every molecule again, its SMILES written otherwise, from another vendor."""
    from rdkit import Chem

    lines = [line.split() for line in inputs[0].read_text().splitlines()]
    molecules = [(Chem.MolFromSmiles(line[0]), line[1]) for line in lines if len(line) == 2]
    turned = [
        (Chem.MolToSmiles(molecule, rootedAtAtom=molecule.GetNumAtoms() - 1), name)
        for molecule, name in molecules
        if molecule is not None
    ]
    path = tmp_path / "twice.smi"
    path.write_text(inputs[0].read_text() + "".join(f"{smiles} other-{name}\n" for smiles, name in turned))
    return path


def test_copies_are_counted(
    made: Path, twice: Path, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint(twice, tmp_path / "fp", rows_per_partition=150)
    fit(tmp_path / "fp", inputs[1], tmp_path / "model", feature_map=FEATURES, direction="minimize")
    labelled = {line.split(",")[0] for line in inputs[1].read_text().splitlines()[1:]}

    def counts(source: Path, **options: Any) -> tuple[int, int, str]:
        path = tmp_path / "hits.parquet"
        report = screen(tmp_path / "model", source, path, overwrite=True, **{"k": 60, **options})
        names = [name.removeprefix("other-") for name in report.table["id"].to_pylist()]
        return (
            len(names) - len(set(names)),
            len([name for name in names if name in labelled]),
            report.notes[-1],
        )

    repeats, copies, note = counts(tmp_path / "fp")
    assert repeats > 25
    assert note == (
        f"{repeats} of the 60 hits are the same molecule as a better hit, and {copies} are labelled "
        "molecules or copies of them"
    )
    repeats, copies, note = counts(tmp_path / "fp", exclude_labelled=True)
    assert repeats > 10
    assert copies == 0
    left = screen(tmp_path / "model", tmp_path / "fp", tmp_path / "all.csv", k=1200, exclude_labelled=True)
    (said,) = (text for text in left.notes if text.startswith("left out, a labelled molecule"))
    assert said == f"left out, a labelled molecule: {left.rows - len(left.table):,}"
    assert note.endswith(
        f"{repeats} of the 60 hits are the same molecule as a better hit, and none has a label"
    )
    counts_before = counts(tmp_path / "fp")[1]
    assert counts(twice)[1:] == counts(tmp_path / "fp")[1:]  # of files: the model knows its labels

    monkeypatch.setattr(duplicates, "_MOST_HITS", 20)
    assert "of the best 20 hits are the same molecule" in counts(tmp_path / "fp", k=61)[2]
    monkeypatch.setattr(duplicates, "_MOST_PARSED", 3)
    assert counts(tmp_path / "fp", k=62)[2].endswith(
        "the number of labelled molecules or copies of them was not counted: more than 3 of the 250 labelled "
        "molecules may be among them"
    )
    monkeypatch.setattr(duplicates, "SMILES", "none")  # of a model without them, the library is read
    monkeypatch.setattr(duplicates, "_MOST_ROWS", 300)
    assert "was not counted: 600 rows would have to be read from" in counts(tmp_path / "fp", k=63)[2]
    monkeypatch.setattr(duplicates, "_MOST_ROWS", 100)
    assert counts(tmp_path / "fp", k=65)[2].endswith("was not counted: the model has 250 labels")
    shutil.move(tmp_path / "fp", tmp_path / "moved")
    monkeypatch.setattr(duplicates, "_MOST_ROWS", 1000)
    reason = "was not counted: the library that the model was fitted to is not where it was"
    assert counts(twice, k=64)[2].endswith(reason)
    monkeypatch.undo()
    assert counts(twice)[1] == counts_before  # the model has the SMILES of its labels


def test_fit_says_if_it_does_not_know_the_labelled_molecules(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "the SMILES of the labelled molecules were not stored"
    known = fit(made / "fp", inputs[1], tmp_path / "known", feature_map=FEATURES)
    assert not any(told in warning for warning in known.warnings)
    monkeypatch.setattr(labelled, "_MOST_ROWS", 599)  # of 600
    for _ in range(2):  # the second time the model is there
        unknown = fit(made / "fp", inputs[1], tmp_path / "unknown", feature_map=FEATURES)
        assert sum(told in warning for warning in unknown.warnings) == 1


def test_a_damaged_library_does_not_cost_the_hits(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "SMILES", "none")  # of a model without them, the library is read
    shutil.copytree(made / "fp", tmp_path / "fp")
    fit(tmp_path / "fp", inputs[1], tmp_path / "model", feature_map=FEATURES, direction="minimize")
    (tmp_path / "fp" / "rows" / "000001.parquet").unlink()
    report = screen(tmp_path / "model", inputs[0], tmp_path / "hits.parquet", k=5)
    assert "was not counted: " in report.notes[-1]
    assert "partition 1" in report.notes[-1]
    assert pa.table(report.table).num_rows == 5


def test_status_and_verify_of_hits(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hits.parquet"
    report = screen(made / "model", inputs[0], path, k=7, acquisition="ucb", kappa=3.0)
    shutil.rmtree(tmp_path / "hits.parquet.log")  # the file itself says what it is
    found = status(path)
    assert (found.kind, found.complete, found.bytes) == ("hits", True, path.stat().st_size)
    text = str(found)
    for words in (
        "hits, complete",
        f"7 hits (k = 7), the best of {report.rows} molecules by ucb, kappa 3.0",
        "minimizing 'score'",
        f"model: model, hash {read_model(made / 'model').metadata['spec_hash'][:12]}",
        "library: library.smi, hash ",
        *report.notes,
    ):
        assert words in text
    assert f"hash: {text.split('model, hash ')[1][:12]}" in str(status(made / "model"))
    assert verify(path).sound
    assert str(verify(path)) == f"{path}: hits, every digest is right"
    rejects = tmp_path / "hits.rejects.parquet"
    assert "4 rows of the SMILES files, with file, line, text and reason" in str(status(rejects))
    assert verify(rejects).sound

    table = pq.read_table(path)
    changed = table.set_column(
        table.schema.get_field_index("mean"), "mean", pa.array(table["mean"].to_numpy() + 1)
    )
    pq.write_table(changed, path)
    for victim, words in ((path, "does not match its CRC32C"), (rejects, "")):
        if victim is rejects:
            data = bytearray(victim.read_bytes())
            data[20] ^= 1
            victim.write_bytes(data)
        broken = verify(victim)
        assert broken.exit_code == 1
        assert words in str(broken)
        assert f"delete {victim} and" in str(broken)
        with pytest.raises(StoreError, match=r"(hits|screen) and damaged, which --repair cannot fix"):
            verify(victim, repair=True)
    for strange in (inputs[0], tmp_path / "none.parquet"):
        for look in (status, verify):
            with pytest.raises(StoreError, match=r"was not written by daskrf, or is damaged|does not exist"):
                look(strange)

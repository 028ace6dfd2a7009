"""Columns of two classes: which words are positive, and what is asked or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daskrf.errors import InputError
from daskrf.measurements import label_words, read_labels
from daskrf.tables.values.classes import ClassWords

SMILES = ["CCO", "CCN", "CCC", "CCCl", "CCBr", "CCF"]


def table(folder: Path, cells: list[str], name: str = "outcome") -> Path:
    path = folder / "labels.csv"
    path.write_text(f"smiles,{name}\n" + "".join(f"{s},{c}\n" for s, c in zip(SMILES, cells, strict=False)))
    return path


def read(path: Path, **options: Any) -> Any:
    return read_labels(path, key="smiles", targets=["outcome"], **options)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["active", "inactive", "Active"], ClassWords(("active",), ("inactive",))),
        (["non-toxic", "toxic", "TOXIC"], ClassWords(("toxic",), ("non-toxic",))),
        (["not soluble", "soluble", "soluble"], ClassWords(("soluble",), ("not soluble",))),
        (["False", "True", "True"], ClassWords(("True",), ("False",))),
        (["neg", "pos", "pos"], ClassWords(("pos",), ("neg",))),
        (["0", "1", "1"], ClassWords()),
    ],
)
def test_known_pairs(cells: list[str], words: ClassWords, tmp_path: Path) -> None:
    labels = read(table(tmp_path, cells))
    assert labels.classes == (words,)
    assert labels.y.ravel().tolist() == [words.value(cell) for cell in cells]
    assert set(labels.y.ravel()) == {0.0, 1.0}
    assert read(table(tmp_path, cells), classes=False).classes == (None,)


def test_the_positive_word_is_asked_for_and_named(tmp_path: Path) -> None:
    path = table(tmp_path, ["A", "B", "A", "", "b"])
    with pytest.raises(
        InputError, match=r"holds the words 'A', 'B', and it is not known which .* --positive A"
    ):
        read(path)
    labels = read(path, positive="b", drop_non_numbers=True)
    assert labels.y.ravel().tolist() == [0.0, 1.0, 0.0, 1.0]
    assert "'B' read as 1 and 'A' as 0" in label_words(path, key="smiles", targets=["outcome"], positive="B")
    with pytest.raises(InputError, match="do not hold the word 'C'"):
        read(table(tmp_path, ["active", "inactive"]), positive="C")


def test_several_words(tmp_path: Path) -> None:
    path = table(tmp_path, ["CA", "CM", "CI", "CI"])
    with pytest.raises(InputError, match=r"3 different words \('CA', 'CM', 'CI'\).*--positive CA"):
        read(path)
    labels = read(path, positive=["CM", "CA"])
    assert labels.y.ravel().tolist() == [1.0, 1.0, 0.0, 0.0]
    assert labels.classes[0].words() == "'CA', 'CM' read as 1 and 'CI' as 0"
    with pytest.raises(InputError, match="holds only the word 'CI'"):
        read(table(tmp_path, ["CI", "CI"]))
    with pytest.raises(InputError, match="no other words than those"):
        read(table(tmp_path, ["CI", "CA"]), positive=["CI", "CA"])


def test_numbers_as_words(tmp_path: Path) -> None:
    """Numbers other than 0 and 1 are classes only if one is named; a number among them is no word."""
    assert read(table(tmp_path, ["1", "2", "2"])).classes == (None,)
    labels = read(table(tmp_path, ["1", "2", "2"]), positive="2")
    assert labels.y.ravel().tolist() == [0.0, 1.0, 1.0]
    assert read(table(tmp_path, ["0", "1", "0.5"])).classes == (None,)


def test_words_of_a_model(tmp_path: Path) -> None:
    """New labels are read by the words of the fit, even if all are of one class."""
    existing = [ClassWords(("B",), ("A",))]
    labels = read(table(tmp_path, ["A", "a"]), existing_classes=existing)
    assert labels.y.ravel().tolist() == [0.0, 0.0]
    assert read(table(tmp_path, ["1", "0"]), existing_classes=existing).y.ravel().tolist() == [1.0, 0.0]
    path = tmp_path / "long.csv"
    path.write_text("smiles,outcome\n" + "CC,A\nCCC,B\n" * 6000 + "CCO,C\n")
    with pytest.raises(InputError, match="line 12002: 'outcome' holds 'C', which is not a word of its two"):
        read(path, positive="B")

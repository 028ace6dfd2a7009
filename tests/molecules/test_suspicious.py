"""Labels that cannot be right are found, and real ones are not suspected."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from daskrf.errors import InputError
from daskrf.measurements import Labels, read_labels
from daskrf.tables.values.suspicious import suspicions

DATA = Path(os.environ.get("DASKRF_DATA", "../shared/data"))
Draw = Callable[[np.random.Generator], npt.ArrayLike]


def docking(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    return np.round(rng.normal(-7.6, 0.9, 1000), 1)


def groups_of(values: npt.ArrayLike, *, wide: bool = False) -> list[tuple[str, list[float], bool]]:
    y = np.asarray(values, float)
    return [(e.kind, sorted(set(y[e.members])), e.certain) for e in suspicions(y, wide=wide)]


WRONG: dict[str, tuple[Draw, list[tuple[str, list[float], bool]]]] = {
    "zeros": (lambda r: np.r_[docking(r), np.zeros(10)], [("far", [0.0], False)]),
    "clashes": (lambda r: np.r_[docking(r), np.full(5, 25.3)], [("far", [25.3], True)]),
    "two of 999": (lambda r: np.r_[999, docking(r), 999], [("far", [999.0], True)]),
    "10000": (lambda r: np.r_[docking(r), 10000.0], [("far", [10000.0], True)]),
    "-999": (lambda r: np.r_[docking(r), -999.0], [("far", [-999.0], True)]),
    "all of them": (
        lambda r: np.r_[docking(r), 999, -999, 1e4, np.zeros(5)],
        [("far", [999.0, 1e4], True), ("far", [-999.0], True), ("far", [0.0], False)],
    ),
    "different clashes": (lambda r: np.r_[docking(r), 0.5, 4.2, 17], [("far", [0.5, 4.2, 17.0], False)]),
    "few": (lambda r: np.r_[docking(r)[:20], 999], [("far", [999.0], True)]),
    "huge": (lambda r: np.r_[docking(r), 1e20], [("far", [1e20], True)]),
    "logP": (lambda r: np.r_[r.normal(2.5, 1.5, 900), 354], [("far", [354.0], True)]),
    "zeros of logP": (lambda r: np.r_[r.normal(2.5, 1.5, 900), np.zeros(60)], [("spike", [0.0], False)]),
    "pIC50": (lambda r: np.r_[r.normal(6, 1, 300), 5300], [("far", [5300.0], True)]),
    "QED": (lambda r: np.r_[r.beta(5, 2, 400), 999], [("far", [999.0], True)]),
    "-10 for failures of positive scores": (
        lambda r: np.r_[np.round(r.lognormal(0, 1, 120), 2), np.full(6, -10.0)],
        [("far", [-10.0], True)],
    ),
    "a limit": (lambda r: np.maximum(np.round(r.normal(5.2, 1, 900), 2), 4.5), [("limit", [4.5], False)]),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_wrong_is_found(name: str, seed: int) -> None:
    draw, expected = WRONG[name]
    seen = groups_of(draw(np.random.default_rng(seed)))
    apart = [("far" if values == [0.0] and kind == "spike" else kind, values, c) for kind, values, c in seen]
    assert apart == (expected if name != "zeros of logP" else [("far", [0.0], False)])


def pic50(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    return np.round(np.clip(rng.normal(6.5, 0.8, n), 4.1, 9), 2)


@pytest.mark.parametrize("share", [0.02, 0.15, 0.4])
@pytest.mark.parametrize("wrong", [[-999.0], [999.0], [-999.0, 999.0], [9999.0], [999.0, 9999.0], [-1e4]])
def test_a_wrong_value_is_found_however_many_share_it(wrong: list[float], share: float) -> None:
    for n in (60, 400):
        shared = np.repeat(wrong, max(1, int(share * n / len(wrong))))
        y = np.r_[pic50(np.random.default_rng(n), n - len(shared)), shared]
        seen = groups_of(y)
        assert {v for _, values, certain in seen if certain for v in values} == set(wrong), seen
        assert sum(len(each.members) for each in suspicions(y) if each.certain) == len(shared)


@pytest.mark.parametrize("share", [0.15, 0.3, 0.45])
def test_a_limit_of_detection_is_a_note(share: float) -> None:
    for n in (60, 400):
        n_tied = int(share * n)
        y = np.r_[pic50(np.random.default_rng(n), n - n_tied), np.full(n_tied, 4.0)]
        assert [(values, certain) for _, values, certain in groups_of(y)] == [([4.0], False)]
        raw = np.where(y == 4.0, 1e5, 10 ** (9 - y))
        assert not any(certain for wide in (True, False) for _, _, certain in groups_of(raw, wide=wide))


@pytest.mark.parametrize("n_zeros", [1, 3, 20, 80])
@pytest.mark.parametrize("n", [6, 100])
def test_concentrations_of_zero_are_found(n: int, n_zeros: int) -> None:
    values = np.r_[10 ** np.random.default_rng(0).normal(2, 1, n), np.zeros(n_zeros)]
    assert groups_of(values, wide=True) == [("far", [0.0], False)]
    (zeros,) = suspicions(values, wide=True)
    assert zeros.members.tolist() == list(range(n, n + n_zeros))


@pytest.mark.parametrize("scale", [1 / 64, 64.0])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_suspected_does_not_depend_on_the_unit(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    y = np.round(rng.normal(float(rng.choice([0, 3, -8])), 1, 150), 2)
    y[:5] = rng.choice([-10, 2, 4, 6])
    seen = [(each.kind, each.members.tolist(), each.certain) for each in suspicions(y)]
    scaled = [(each.kind, each.members.tolist(), each.certain) for each in suspicions(y * scale)]
    assert scaled == seen


@pytest.mark.parametrize("wide", [False, True])
def test_members_are_places_in_any_order(wide: bool) -> None:
    """All labels of a suspected value are members, and no other; zeros between others are a group alone."""
    rng = np.random.default_rng(0)
    y = np.r_[10 ** rng.normal(2, 1, 400), np.zeros(30), np.full(40, 5.0), -np.arange(1.0, 9), 1e30, 1e31]
    groups = [(each.kind, sorted(y[each.members]), each.certain) for each in suspicions(y, wide=wide)]
    assert len(groups) > 1 + wide
    order = rng.permutation(len(y))
    shuffled = suspicions(y[order], wide=wide)
    assert [(e.kind, sorted(y[order][e.members]), e.certain) for e in shuffled] == groups
    for each in shuffled:
        assert (np.diff(each.members) > 0).all()
        values = set(y[order][each.members])
        assert set(np.flatnonzero(np.isin(y[order], list(values)))) == set(each.members)


def test_negative_concentrations_are_found() -> None:
    values = np.r_[10 ** np.random.default_rng(0).normal(2, 1.2, 500), -1, -1]
    assert groups_of(values, wide=True) == [("sign", [-1.0], False)]


RIGHT: dict[str, Draw] = {
    "docking": docking,
    "normal": lambda r: r.normal(size=300),
    "logP": lambda r: np.round(r.normal(2.5, 1.5, 1000), 2),
    "classes": lambda r: r.integers(0, 2, 400),
    "rare class": lambda r: r.random(400) < 0.02,
    "three classes": lambda r: r.integers(0, 3, 400),
    "counts": lambda r: r.poisson(3, 400),
    "counts with zeros": lambda r: r.poisson(5, 400) * (r.random(400) < 0.3),
    "counts with a tail": lambda r: r.negative_binomial(0.5, 0.02, 400),
    "integers": lambda r: r.integers(1, 100, 400),
    "percentages": lambda r: np.clip(np.round(r.normal(30, 40, 400)), 0, 100),
    "concentrations": lambda r: 10 ** r.normal(2, 1.2, 500),
    "rounded concentrations": lambda r: np.round(10 ** r.normal(2, 1, 300), 1),
    "few concentrations": lambda r: 10 ** r.normal(2, 1, 15),
    "a tail": lambda r: r.exponential(size=500),
    "a long tail": lambda r: r.lognormal(0, 2, 500),
    "constant": lambda r: np.ones(50),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_suspected(name: str) -> None:
    wrong = {
        seed: each for seed in range(20) if (each := groups_of(RIGHT[name](np.random.default_rng(seed))))
    }
    assert not any(certain for each in wrong.values() for _, _, certain in each)
    assert len(wrong) <= 1, wrong


@pytest.mark.parametrize("n", [1, 2, 5, 9, 10, 11, 50])
def test_few_or_strange_labels_do_not_fail(n: int) -> None:
    rng = np.random.default_rng(n)
    for values in (
        rng.normal(size=n),
        np.arange(n) % 3,
        np.full(n, 1e30) * rng.normal(size=n),
        np.full(n, 1e-300) * rng.normal(size=n),
        rng.standard_cauchy(n) ** 3,
    ):
        members = [each.members for each in suspicions(np.asarray(values, float))]
        merged = np.concatenate([*members, np.empty(0, np.int64)])
        assert len(set(merged.tolist())) == len(merged)
        assert len(merged) < max(n / 2, 1)


@pytest.mark.skipif(not DATA.exists(), reason="no data at DASKRF_DATA")
def test_docking_scores_of_the_library() -> None:
    with gzip.open(DATA / "Enamine50k_scores.csv.gz", "rt") as file:
        scores = np.array([float(row["score"]) for row in csv.DictReader(file) if row["score"]])
    assert groups_of(scores) == [("far", [0.0], False)]  # one docking run has failed
    for seed in range(20):
        for n in (30, 300, 3000):
            drawn = np.random.default_rng(seed).choice(scores[scores < 0], n, replace=False)
            assert groups_of(drawn) == []


def read(folder: Path, name: str, values: list[object], **options: object) -> Labels:
    path = folder / "labels.csv"
    path.write_text(f"id,{name}\n" + "".join(f"m{k},{value}\n" for k, value in enumerate(values)))
    return read_labels(path, **options)


SCORES: list[object] = [-4 - k / 10 for k in range(60)]


def test_rounded_scores_of_a_selection_are_not_suspected() -> None:
    """As of the best molecules of a library: few values, each of many molecules, more of the worse ones."""
    shares = (98, 112, 142, 179, 223, 233, 342, 420, 251)
    for n_values in (8, 9):
        for sign in (1.0, -1.0):
            scores = sign * np.repeat(np.arange(-9.9, -9.0, 0.1)[:n_values].round(1), shares[:n_values])
            assert suspicions(scores) == []
            (other,) = suspicions(np.r_[scores, 999.0])
            assert other.members.tolist() == [len(scores)]


def test_each_group_is_one_line_with_its_option(tmp_path: Path) -> None:
    labels = read(tmp_path, "score", [*SCORES, 0, 0, 0])
    (note,) = labels.notes
    assert note == (
        "3 of 63 labels of 'score' are exactly 0, far more than at any nearby value, such as line 62: 0; "
        "--drop-value 0 leaves them out"
    )
    dropped = read(tmp_path, "score", [*SCORES, 0, 0, 0], drop_value=0)
    assert (len(dropped), dropped.notes) == (60, ())
    assert dropped.unusual == {"to be dropped": (3, "0")}


def test_what_cannot_be_right_is_refused(tmp_path: Path) -> None:
    values = [*SCORES, 999, 999, -9999]
    with pytest.raises(InputError) as error:
        read(tmp_path, "score", values)
    for text in (
        "2 of 63 labels of 'score' are exactly 999, far from all others (-9.9 to -4), such as line 62: 999",
        "1 of 63 labels of 'score' are exactly -9999",
        "--drop-value 999 --drop-value -9999, or keep them with --accept-outliers",
    ):
        assert text in str(error.value)
    assert len(read(tmp_path, "score", values, drop_value=[999, -9999])) == 60
    assert len(read(tmp_path, "score", values, drop_outside="-20:0")) == 60
    assert len(read(tmp_path, "score", values, drop_outside=":0", drop_value=-9999)) == 60
    accepted = read(tmp_path, "score", values, accept_outliers=True)
    assert (len(accepted), len(accepted.notes)) == (63, 2)


def test_many_different_values_get_a_range(tmp_path: Path) -> None:
    values = [*SCORES, 80.5, 120, 200, 314, 555]
    with pytest.raises(InputError, match=r"--drop-outside -9\.9:-4, or keep them"):
        read(tmp_path, "score", values)
    labels = read(tmp_path, "score", values, drop_outside=(-9.9, -4.0))
    assert (len(labels), labels.y.min(), labels.y.max()) == (60, -9.9, -4.0)


def test_limits_are_of_the_values_in_the_file(tmp_path: Path) -> None:
    values = [10.0 + 100 * k for k in range(40)]
    options = {"transform": "pIC50", "unit": "nM", "targets": ["IC50"]}
    labels = read(tmp_path, "IC50", [*values, 0, 1e6], drop_value=0, drop_outside="10:2000", **options)
    assert len(labels) == 20
    assert labels.y.max() == 8.0
    np.testing.assert_allclose(10 ** (9 - labels.y[:, 0]), values[:20])
    (limits,) = labels.limits
    assert (limits.high, limits.plain) == (8.0, (0.0,))
    np.testing.assert_allclose(limits.low, 9 - np.log10(2000))


def test_what_many_share_is_refused_by_its_value(tmp_path: Path) -> None:
    values = [5 + k / 20 for k in range(51)]
    message = (
        r"9 of 60 labels of 'pIC50' are exactly -999, far from all others \(5 to 7\.5\), such as line 53: "
        r"-999\. Leave them out with --drop-value -999"
    )
    with pytest.raises(InputError, match=message):
        read(tmp_path, "pIC50", [*values, *[-999] * 9])


def test_zeros_of_concentrations_are_said(tmp_path: Path) -> None:
    (note,) = read(tmp_path, "IC50_nM", [*(10 * k for k in range(1, 98)), 0, 0, 0]).notes
    assert note == (
        "3 of 100 labels of 'IC50_nM' are exactly 0, far from all others (10 to 970), such as line 99: 0; "
        "--drop-value 0 leaves them out"
    )


@pytest.mark.parametrize("huge", ["1e300", "-1e300", "1e101"])
def test_a_value_that_is_too_large_is_refused_by_line(huge: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"labels\.csv, line 62: 'score' holds '.*', which is too large"):
        read(tmp_path, "score", [*SCORES, huge])
    for options in ({"drop_non_numbers": True}, {"drop_outside": "-20:0"}, {"drop_value": float(huge)}):
        assert len(read(tmp_path, "score", [*SCORES, huge], **options)) == 60
    (tmp_path / "labels.csv").write_text("id,IC50\n" + "a,1\n" * 20 + f"b,{huge}\n")
    options = {"transform": "pIC50", "unit": "nM"}
    with pytest.raises(InputError, match="line 22"):
        read_labels(tmp_path / "labels.csv", **options)


def test_several_targets_have_limits_of_their_own(tmp_path: Path) -> None:
    rows = [f"{k},{-4 - k / 10},{k / 7}" for k in range(60)] + ["60,999,3", "61,-5,777", "62,0,0"]
    path = tmp_path / "two.csv"
    path.write_text("id,score,logP\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match=r"--drop-value score=999.*--drop-value logP=777"):
        read_labels(path, targets=["score", "logP"])
    labels = read_labels(
        path, targets=["score", "logP"], drop_value={"score": [999, 0]}, drop_outside={"logP": ":50"}
    )
    there = np.isfinite(labels.y)
    assert there.sum(0).tolist() == [61, 62]
    with pytest.raises(InputError, match="a value to drop is given for 'x', which is not a target"):
        read_labels(path, targets=["score", "logP"], drop_value={"x": 3})


@pytest.mark.parametrize("text", ["a:b", "1", "5:1", "1:2:3", "nan:3", "3:3"])
def test_a_range_that_is_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a range of values to keep; give LOW:HIGH"):
        read(tmp_path, "score", SCORES, drop_outside=text)


@pytest.mark.parametrize("wrong", ["several", "one"])
def test_what_is_advised_for_rows_with_units_of_their_own(wrong: str, tmp_path: Path) -> None:
    """It is in one unit, said, and leaves out what is wrong alone."""
    rng = np.random.default_rng(0)
    rows = [(f"{v:.1f}", "nM") for v in rng.uniform(10, 100, 60)]
    if wrong == "several":
        rows += [(f"{v:.2f}", "uM") for v in rng.uniform(0.1, 5, 20)]
        rows += [(f"{v:.0f}", "nM") for v in rng.uniform(5e9, 9e9, 5)]
    else:
        rows += [("900000", "uM")]
    lines = "".join(f"{'C' * (k + 1)},{value},{unit}\n" for k, (value, unit) in enumerate(rows))
    (tmp_path / "y.csv").write_text("smiles,IC50,standard_units\n" + lines)
    options: dict[str, object] = {"key": "structure", "transform": "pIC50", "targets": ["IC50"]}
    with pytest.raises(InputError, match=r"labels of 'IC50', in \w+/?\w*, .* Leave them out with") as caught:
        read_labels(tmp_path / "y.csv", **options)
    words = str(caught.value).partition("Leave them out with ")[2].partition(", or keep")[0].split()
    limits: dict[str, object] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = option[2:].replace("-", "_")
        limits[name] = value if name == "drop_outside" else [*limits.get(name, []), float(value)]  # type: ignore[misc]
    labels = read_labels(tmp_path / "y.csv", **options, **limits)
    assert len(labels.y) == (80 if wrong == "several" else 60)
    assert labels.y.min() > 5

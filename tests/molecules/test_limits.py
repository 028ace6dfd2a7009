"""Labels of which only a limit is known, as they are read."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.measurements import Labels, read_labels
from daskrf.measurements.tally import FarLimit, TargetTally
from daskrf.tables.values.limits import one_limit_of_each
from daskrf.tables.values.notation import side_of
from daskrf.tables.values.values import APPROXIMATE, LEFT_OUT, LOWER_LIMITS, UPPER_LIMITS


def read(folder: Path, text: str, **options: object) -> Labels:
    path = folder / "labels.csv"
    path.write_text(text)
    return read_labels(path, **options)  # type: ignore[arg-type]


def limits(labels: Labels, target: int = 0) -> list[tuple[float, int]]:
    assert labels.bound is not None
    assert labels.side is not None
    pairs = zip(labels.bound[:, target].tolist(), labels.side[:, target].tolist(), strict=True)
    return [(round(bound, 9), side) for bound, side in pairs if side]


@pytest.mark.parametrize(
    ("cell", "side"),
    [
        *((">5", 1), (" >> 5 nM", 1), (">=5", 1), ("=> 5", 1), ("≥5", 1)),
        *(("<5", -1), ("<=5", -1), ("≤ 5", -1), ("~5", 0), ("≈5", 0), ("=5", 0), ("5", 0), ("-5", 0)),
        *(("no activity at 10 uM", 1), ("Not active up to 30 µM", 1), ("inactive @ 5", 1), ("inactive", 0)),
    ],
)
def test_sides(cell, side):
    assert side_of(cell) == side


def test_limits_are_read_by_default_and_none_is_a_value(tmp_path):
    labels = read(tmp_path, "id,IC50 (nM)\nA,10\nB,>10000\nC,< 0.1\nD,no activity at 20 uM\nE,~30\n")
    assert limits(labels) == [(10_000.0, 1), (0.1, -1), (20_000.0, 1)]
    assert np.isnan(labels.y.ravel()).tolist() == [False, True, True, True, False]
    assert {kind: n for kind, (n, _) in labels.unusual.items()} == {
        LOWER_LIMITS: 2,
        UPPER_LIMITS: 1,
        APPROXIMATE: 1,
    }


def test_a_negative_logarithm_turns_the_side_around(tmp_path):
    labels = read(tmp_path, "id,IC50 (nM)\nA,10\nB,>10000\nC,<1 uM\n", transform="pIC50")
    assert limits(labels) == [(5.0, -1), (6.0, 1)]
    assert labels.unusual[UPPER_LIMITS] == (1, ">10000")
    plain = read(tmp_path, "id,IC50\nA,10\nB,>1000\n", transform="log10")
    assert limits(plain) == [(3.0, 1)]


def test_several_targets_have_limits_of_their_own(tmp_path):
    labels = read(
        tmp_path, "id,a,b\nA,1,2\nB,>5,\nC,3,<7\nD,4,4\n", targets=["a", "b"], drop_non_numbers=True
    )
    assert (limits(labels), limits(labels, 1)) == ([(5.0, 1)], [(7.0, -1)])
    assert [[None if math.isnan(v) else v for v in row] for row in labels.y.tolist()] == [
        [1, 2],
        [None, None],
        [3, None],
        [4, 4],
    ]


def test_a_limit_without_a_number_is_left_out_and_counted(tmp_path):
    labels = read(tmp_path, "id,y,relation\nA,1,=\nB,>,\nC,,<\nD,2,=\nE,3,>\n", targets=["y"])
    assert labels.y.ravel()[:2].tolist() == [1.0, 2.0]
    assert limits(labels) == [(3.0, 1)]
    assert labels.unusual[LEFT_OUT[9]] == (2, ">")
    assert (labels.read, labels.dropped) == (5, 2)


def test_all_limits_and_means_with_limits_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(InputError, match=r"all 2 labels of y are limits, such as > 5, which do not fix"):
        read(tmp_path, "id,y\nA,>5\nB,<2\n")
    with pytest.raises(InputError, match=r"line 3 holds a limit, and with --replicates .* --censored drop"):
        read(tmp_path, "id,y,n,s\nA,5,2,0.1\nB,>2,3,0.2\n", replicates="n", replicate_std="s", targets=["y"])


def test_a_limit_that_is_too_large_or_has_no_logarithm_is_no_limit(tmp_path):
    labels = read(tmp_path, "id,IC50\nA,10\nB,>0\nC,>5\nD,3\n", transform="log10", drop_non_numbers=True)
    assert limits(labels) == [(round(math.log10(5), 9), 1)]
    assert labels.dropped == 1


def test_of_several_limits_the_closest_counts():
    groups = np.array([7, 7, 7, 2, 2, 5])
    bound = np.array([[5.0], [7.0], [9.0], [4.0], [3.0], [1.0]])
    side = np.array([[1], [1], [-1], [-1], [-1], [1]], np.int8)
    values, sides = one_limit_of_each(groups, bound, side, np.array([[False], [False], [True]]))
    assert values.ravel()[:2].tolist() == [7.0, 3.0]
    assert sides.ravel().tolist() == [1, -1, 0]


def far(*cells: str, name: str = "pKi") -> str:
    values = [f"{5 + 0.1 * k:.1f}" if name == "pKi" else f"{10 ** (0.1 * k):.3g}" for k in range(40)]
    return f"id,{name}\n" + "".join(f"m{k},{cell}\n" for k, cell in enumerate([*values, *cells]))


def test_a_limit_far_beyond_all_measured_values_is_said_with_its_row_and_the_way_to_leave_it_out(tmp_path):
    (low, high) = read(tmp_path, far(">10", ">1e6", "<-200000", ">1e6")).notes
    assert low.startswith(
        "the limit < -200000 of 'pKi' (line 44) lies far beyond all measured values (5 to 8.9)"
    )
    assert low.endswith("; --drop-value -200000 leaves it out")
    assert high.startswith(
        "the limit > 1000000 of 'pKi' (line 43) lies far beyond"
    )  # the first of equal ones
    left = read(tmp_path, far(">10", ">1e6", "<-200000", ">1e6"), drop_value=[1e6, -200000])
    assert (left.notes, limits(left)) == ((), [(10.0, 1)])


def test_limits_that_say_little_or_are_usual_are_not_suspicious(tmp_path):
    assert read(tmp_path, far(">9.5", "<1e6", ">-1e6", "<4.5")).notes == ()
    assert read(tmp_path, far(">30000", "<1e9", name="IC50 (nM)")).notes == ()
    assert read(tmp_path, "id,pKi\nA,5\nB,6\nC,>1e6\n").notes == ()  # too few to judge by


def test_a_far_limit_is_named_as_read_and_on_its_scale(tmp_path):
    text = far(">1e14", name="IC50 (nM)")
    (note,) = read(tmp_path, text, transform="pIC50").notes
    assert "the limit > 100000000000000 nM of 'IC50 (nM)' (line 42), < -5 as pIC50, lies far beyond" in note
    assert read(tmp_path, text, transform="pIC50", drop_value=1e14).notes == ()


def test_tallies_of_segments_keep_the_farthest_limits():
    first, second = TargetTally(), TargetTally()
    for each in (FarLimit(1, 5.0, 5.0, 2), FarLimit(1, 9.0, 9.0, 3)):
        first.see_limit(each)
    for each in (FarLimit(1, 9.0, 9.0, 7), FarLimit(-1, 1.0, 1.0, 8)):
        second.see_limit(each)
    first.add(TargetTally.from_state(json.loads(json.dumps(second.state()))))
    assert first.farthest == (FarLimit(-1, 1.0, 1.0, 8), FarLimit(1, 9.0, 9.0, 3))
    assert "lowest" not in TargetTally().state()

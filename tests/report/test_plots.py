"""The picture is drawn from what it is given."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure

from daskrf import seeds
from daskrf.report import plots
from daskrf.report.recovery import recovery


@pytest.fixture
def held_out():
    generator = seeds.generator(0, "test/plots")
    truth = generator.normal(size=3000)
    std = np.full(3000, 0.5)
    return plots.HeldOut(truth, truth + std * generator.normal(size=3000), std)


def test_picture_is_written_with_labelled_axes(held_out, tmp_path, monkeypatch):
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, path, **o: (figures.append(figure), save(figure, path, **o))
    )
    ranking = recovery(held_out.truth, held_out.mean, 100)
    plots.plot_screen(tmp_path / "hits.png", held_out, ranking, 0.8, "pIC50")
    assert (tmp_path / "hits.png").read_bytes().startswith(b"\x89PNG")
    parity, curve, calibration = figures[0].axes
    assert parity.get_xlabel() == "predicted pIC50"
    assert parity.get_ylabel() == "true pIC50"
    assert "0.80" in parity.get_title()
    model = next(line for line in curve.get_lines() if line.get_label() == "ranked by the model")
    np.testing.assert_allclose(model.get_ydata(), ranking.found)
    observed = next(line for line in calibration.get_lines() if line.get_label() == "this model")
    assert np.abs(observed.get_ydata() - observed.get_xdata()).max() < 5  # percent: drawn to be calibrated


def test_error_bars_reach_both_ends():
    values = np.r_[np.zeros(1000), 5.0, -7.0]
    chosen = plots._spread(values, 10)
    assert {5.0, -7.0} <= set(values[chosen])
    assert len(chosen) == len(set(chosen.tolist())) <= 10


@pytest.mark.parametrize("name", ["$$", r"$\frac{", "_^{", "\x1b[31mred", "💥" * 30, "a\nb", "x" * 10_000])
def test_any_name_of_a_target_can_be_drawn(name, held_out, tmp_path, monkeypatch):
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, path, **more: (figures.append(figure), save(figure, path, **more))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.plot_evaluation(tmp_path / "a.png", [plots.Panels(held_out, 0.8, name)])
    label = figures[0].axes[0].get_xlabel()
    assert label.startswith("predicted ")
    assert label.isprintable()
    assert len(label) <= 80

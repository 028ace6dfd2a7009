"""A budget for a batch: the order of the rule, prices that are counted, one sentence if nothing is paid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import daskrf
from daskrf import TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError

N = 150
SMILES = list(ReactionLibrary().smiles(0, N + 40))
RNG = np.random.default_rng(1)
PRICES = [f"$ {RNG.integers(50, 400)}.50" if k % 7 else "" for k in range(N)]
LIBRARY = pd.DataFrame({"smiles": SMILES[:N], "Price USD": PRICES, "weight": [1] * N})
LABELS = {"smiles": SMILES[N:], "y": RNG.standard_normal(40).tolist()}
GIVEN: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1, "direction": "maximize"}
PRICE = np.array([float(text.lstrip("$ ") or "nan") for text in PRICES])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("budget") / "model"
    daskrf.fit(LABELS, output=made, feature_map=TanimotoMinMaxFeatures(64), **GIVEN)
    return made


def bought(order: list[int], budget: float, n: int) -> list[int]:
    """Return the rows that are paid, one after the other."""
    picks: list[int] = []
    for row in order:
        if len(picks) < n and PRICE[row] + PRICE[picks].sum() <= budget:
            picks.append(row)
    return picks


@pytest.mark.parametrize("budget", [60.0, 777.0, 5000.0, 1e6])
@pytest.mark.parametrize("rule", ["greedy", "ucb"])
def test_molecules_are_bought_in_the_order_of_the_rule(rule: str, budget: float, model: Path) -> None:
    some: dict[str, Any] = {"acquisition": rule, "same_fingerprint": True, "exclude_by": "structure"}
    batch = daskrf.suggest(model, LIBRARY, n=40, budget=budget, price="price_usd", **some)
    every = daskrf.suggest(model, LIBRARY, n=int(np.isfinite(PRICE).sum()), where="'Price USD' >= 0", **some)
    rows = bought(every.table["row"].to_pylist(), budget, 40)
    assert batch.table["row"].to_pylist() == rows
    assert f"{len(rows):,} molecules for {PRICE[rows].sum():,.10g} of a budget of {budget:,.10g}" in str(
        batch
    )
    assert ("what is left buys no candidate" in str(batch)) == (budget < 6000)
    if budget == 1e6:
        assert f"left out, has no numbers in the columns: {np.isnan(PRICE).sum()}" in str(every)
    else:
        assert "has no numbers in the columns" in str(batch)  # those without a price, among the tested ones


@pytest.mark.parametrize(
    "options",
    [{"batch": "believer"}, {"acquisition": "thompson"}, {"acquisition": "ei", "max_similarity": 0.5}],
)
def test_every_rule_keeps_to_the_budget(options: dict[str, Any], model: Path) -> None:
    batch = daskrf.suggest(model, LIBRARY, n=40, budget=2000, price="Price USD", **options)
    rows = batch.table["row"].to_pylist()
    left = 2000 - PRICE[rows].sum()
    assert 5 <= len(rows) < 40
    assert left >= 0
    assert f"{len(rows)} molecules for" in str(batch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"budget": 9, "price": "Price USD"},
            r"budget of 9 buys none .*the cheapest .* costs \d+.5; raise",
        ),
        ({"budget": 9}, "--budget and --price .*go together"),
        ({"price": "Price USD"}, "--budget and --price .*go together"),
        ({"budget": -1, "price": "Price USD"}, "must be a positive number, not -1"),
        ({"budget": float("nan"), "price": "Price USD"}, "must be a positive number, not nan"),
        (
            {"budget": 9, "price": "Cost"},
            "no column 'Cost' of prices in the library; it has 'Price USD'",
        ),
        ({"budget": 9, "price": "smiles"}, "There is no column 'smiles' of prices"),
    ],
)
def test_what_cannot_be_paid_is_one_sentence(options: dict[str, Any], message: str, model: Path) -> None:
    with pytest.raises(InputError, match=message) as error:
        daskrf.suggest(model, LIBRARY, n=5, **options)
    assert "\n" not in str(error.value)

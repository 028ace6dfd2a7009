"""The page of a campaign says what its rounds brought, and why molecules failed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from daskrf.campaigns.history import CampaignRound, History
from daskrf.report.campaignreport import show_rounds


def history(n: int = 6) -> History:
    """Return two rounds of n molecules, of which the second lost two for different reasons."""
    none = np.full(n, np.nan)
    smiles = tuple("C" * (k + 1) + "O" for k in range(n))
    ids = tuple(f"m{k}" for k in range(n))
    first = CampaignRound(1, n, smiles, ids, np.arange(n) - 5.0, none, none)
    failures = {"ended with exit code 1 (<no map>)": 1, "did not end within 5 seconds": 2}
    scores = np.arange(n) - 9.0
    second = CampaignRound(2, n + 3, smiles, ids, scores, scores + 0.5, np.ones(n), None, failures)
    return History((first, second), "score", maximize=False)


def test_the_page_has_means_hits_and_reasons_of_failures(tmp_path: Path) -> None:
    folder = tmp_path / "kinases"
    folder.mkdir()
    show_rounds(folder, history())
    page = (folder / "rounds.html").read_text()
    rows = [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", page)[1:]]
    assert rows == [
        ["1", "6", "0", "-2.5", "-5", "0", "", ""],
        ["2", "9", "3", "-6.5", "-9", "4", "100%", ""],
    ]
    reasons = "did not end within 5 seconds (2); ended with exit code 1 (&lt;no map&gt;) (1)."
    assert f"Why 3 molecules failed: {reasons}" in page
    assert "<title>kinases: rounds</title>" in page
    assert (folder / "rounds.png").stat().st_size > 10_000

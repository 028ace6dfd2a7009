"""Reports in a real Jupyter kernel: HTML with structures, DataFrames, and no noise."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.errors import InputError
from daskrf.report.notebook import Shown

CELLS = [
    "import pandas, daskrf\nlabels = pandas.read_csv('labels.csv')",
    "daskrf.fit(labels, output='model', target='score', direction='minimize')",
    "hits = daskrf.screen('model', labels.smiles.tolist(), 'hits.csv', k=15)\nhits",
    "hits.to_pandas()[['smiles', 'mean', 'std_y']].head(3)",
    "daskrf.predict('model', ['CCO', 'c1ccccc1'])",
    "daskrf.predict('model', 'CCO').to_pandas().columns.tolist()",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each cell of a notebook shows."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient and ipykernel are in the extra [test]")
    from nbformat import v4

    folder = tmp_path_factory.mktemp("notebook")
    smiles = ReactionLibrary().smiles(0, 60)
    lines = [f"{text},{value!r}\n" for text, value in zip(smiles, score(smiles).tolist(), strict=True)]
    (folder / "labels.csv").write_text("smiles,score\n" + "".join(lines))
    kernel = folder / "kernels" / "here"
    kernel.mkdir(parents=True)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": start, "display_name": "here", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    notebook = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in CELLS])
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")])
    manager = AsyncKernelManager(kernel_name="here", kernel_spec_manager=specs)
    run = nbclient.NotebookClient(
        notebook, km=manager, timeout=300, resources={"metadata": {"path": str(folder)}}
    )
    run.execute()
    return [cell.outputs for cell in notebook.cells]


def shown(output: list[dict[str, Any]]) -> dict[str, str]:
    """Return the only output of a cell: its representations."""
    assert [each["output_type"] for each in output] == ["execute_result"]
    return output[0]["data"]


def test_reports_are_html_with_structures(outputs: list[list[dict[str, Any]]]) -> None:
    hits = shown(outputs[2])["text/html"]
    assert hits.startswith("<pre>best 15 of 60 molecules by greedy, minimizing &#x27;score&#x27;")
    assert hits.count("<tr>") == 11
    assert hits.count("<svg") == 10
    assert "and 5 more; see to_pandas()" in hits
    predictions = shown(outputs[4])["text/html"]
    assert predictions.count("<svg") == 2
    assert "model of 60 labelled molecules" in shown(outputs[1])["text/html"]


def test_tables_are_data_frames(outputs: list[list[dict[str, Any]]]) -> None:
    assert re.findall(r"<th>(\w+)</th>", shown(outputs[3])["text/html"])[:3] == ["smiles", "mean", "std_y"]
    columns = ["row", "id", "smiles", "mean", "std", "std_y", "reason"]
    assert shown(outputs[5])["text/plain"] == str(columns)


def test_the_text_of_a_report_is_no_table_of_arrow(outputs: list[list[dict[str, Any]]]) -> None:
    assert "pyarrow" not in shown(outputs[2])["text/plain"]


@dataclass
class Report(Shown):
    table: pa.Table | None
    store: Path | None = None


def test_text_of_files_is_escaped_and_a_missing_table_is_a_sentence() -> None:
    evil = "<script>alert(1)</script>"
    table = pa.table({"id": [evil], "smiles": ["C1CC"], "<b>": [None], "mean": [1.23456]})
    text = Report(table)._repr_html_()
    assert "<script" not in text
    assert "<b>" not in text
    assert "<td>1.235</td>" in text
    assert "<svg" not in text  # it cannot be drawn
    assert Report(table).to_pandas()["id"].tolist() == [evil]
    with pytest.raises(InputError, match=r"holds no table of molecules: read a\.csv"):
        Report(None, Path("a.csv")).to_pandas()

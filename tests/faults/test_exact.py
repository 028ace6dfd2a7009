"""Products with a kernel matrix by workers that die: the same model, and no product is made twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from daskrf import fingerprint, fit, load
from daskrf.files.disk import work_folder
from daskrf.fitting import exactsolve
from tests.faults.injection import Crash, Fault, Injector, on_workers
from tests.jobs.job import model_arrays

BLOCKS = "daskrf.fitting.exactsolve:Blocks.leave"
LEFT = "daskrf.fitting.exactsolve:write_checkpoint"
EXACT: dict[str, Any] = {
    "process": "exact", "quick": True, "solver": "cg", "n_landmarks": 30, "n_features": 512, "n_draws": 4,
    "noise_variance": 0.05, "tolerance": 1e-4,
}  # fmt: skip


@pytest.fixture(scope="module")
def store(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exact") / "fp"
    fingerprint(inputs[0], path, rows_per_partition=100)
    return path


@pytest.fixture(autouse=True)
def _small_blocks_on_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.gp.solve.kernelmatrix._TILE", 64)  # 4 panels of 250 labels: 10 blocks
    monkeypatch.setattr(exactsolve, "_on_workers", lambda client, n_rows: client is not None)


@pytest.fixture(scope="module")
def undisturbed(
    store: Path, inputs: tuple[Path, Path], client: Client, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, np.ndarray]:
    path = tmp_path_factory.mktemp("models") / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskrf.gp.solve.kernelmatrix._TILE", 64)
        patch.setattr(exactsolve, "_on_workers", lambda client, n_rows: client is not None)
        fit(store, inputs[1], path, client=client, **EXACT)
    return model_arrays(path)


def assert_same(arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert arrays.keys() == expected.keys()
    for name, values in expected.items():
        assert arrays[name].tobytes() == values.tobytes(), name


def test_workers_solve_as_threads_do(
    store: Path, inputs: tuple[Path, Path], undisturbed: dict[str, np.ndarray], tmp_path: Path
) -> None:
    fit(store, inputs[1], tmp_path / "model", **EXACT)
    for name, values in model_arrays(tmp_path / "model").items():
        np.testing.assert_allclose(values, undisturbed[name], rtol=1e-3, atol=1e-4)


def test_workers_die(
    store: Path, inputs: tuple[Path, Path], client: Client, undisturbed: Any, tmp_path: Path
) -> None:
    faults = (Fault(BLOCKS, call=3), Fault(LEFT, call=17), Fault(BLOCKS, "all", call=26))
    with on_workers(client, tmp_path / "marks", *faults) as injector:
        fit(store, inputs[1], tmp_path / "model", client=client, **EXACT)
    assert injector.struck() == len(faults)
    assert_same(model_arrays(tmp_path / "model"), undisturbed)
    assert not work_folder(tmp_path / "model").exists()


@pytest.mark.parametrize("call", [3, 12])
def test_the_driver_dies_between_products_or_within_one(
    store: Path, inputs: tuple[Path, Path], client: Client, undisturbed: Any, tmp_path: Path, call: int
) -> None:
    fault = Fault(LEFT, "crash", call=call)
    with on_workers(client, tmp_path / "marks", counted=(BLOCKS,)) as injector:
        with Injector(str(tmp_path / "driver"), (fault,)), pytest.raises(Crash):
            fit(store, inputs[1], tmp_path / "model", client=client, **EXACT)
        assert len(injector.calls(BLOCKS)) >= 10
        fit(store, inputs[1], tmp_path / "model", client=client, **EXACT)
    # Blocks of a product that was struck as it was to be written are found, and so are whole products.
    assert len(set(injector.calls(BLOCKS))) == 10
    n_products = load(tmp_path / "model").gp.n_iterations_ + 1  # that of squares, for variances
    assert len(injector.calls(BLOCKS)) == 10 * n_products
    assert_same(model_arrays(tmp_path / "model"), undisturbed)

"""Clients that Python functions are given: on which they work, and which they refuse in a sentence."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask.array as da
import pytest
from distributed import Client, LocalCluster

import daskrf
from daskrf.errors import ClientWarning, InputError
from daskrf.jobs.shards import prepare_shards, run_shard


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A cluster in this process, which starts at once; it may be no default, which others would see."""
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        yield cluster


def fingerprint(folder: Path, client: Any = None) -> daskrf.commands.fingerprint.FingerprintReport:
    made = daskrf.fingerprint(["CCO", "CCN"], folder / "fp", client=client)
    assert not isinstance(made, daskrf.jobs.shards.ShardReport)
    return made


def steps(cluster: LocalCluster) -> int:
    return int(cluster.scheduler.transition_counter)


def test_the_client_that_is_given_works(cluster: LocalCluster, tmp_path: Path) -> None:
    before = steps(cluster)
    with Client(cluster, set_as_default=False) as client:
        assert fingerprint(tmp_path, client).kept == 2
    assert steps(cluster) > before


def test_a_default_client_is_not_used_and_a_line_says_so(cluster: LocalCluster, tmp_path: Path) -> None:
    before = steps(cluster)
    with Client(cluster, set_as_default=False) as client, client.as_current():
        with pytest.warns(
            ClientWarning, match=r"not used: pass client=distributed\.default_client\(\)"
        ) as said:
            fingerprint(tmp_path)
        assert said[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error", ClientWarning)
            labels = {"smiles": ["CCO", "CCN", "CCC", "CCCC"], "y": [1.0, 2.0, 3.0, 4.5]}
            daskrf.fit(labels, output=tmp_path / "m", direction="maximize", client=client)
            daskrf.predict(tmp_path / "m", ["CCCO"])  # too little for workers
            prepare_shards(daskrf.fingerprint, ["C"], tmp_path / "shards", client=client)
            run_shard(daskrf.fingerprint, "0/1", ["C"], tmp_path / "shards")  # a shard works alone
            lazy = daskrf.featurize(da.ones((2, 8), chunks=1), daskrf.TanimotoMinMaxFeatures(8))
            assert lazy.compute(scheduler="synchronous").shape == (2, 1)
            # A task on a worker is no place for a word on clients, and must not wait for others.
            assert client.submit(fingerprint, tmp_path / "inside").result().kept == 2
    assert steps(cluster) > before


UNUSABLE: dict[str, tuple[Callable[[LocalCluster], Any], str]] = {
    "a cluster": (
        lambda cluster: cluster,
        r"not of type LocalCluster; give distributed\.Client\(cluster\)\.",
    ),
    "an address": (
        lambda cluster: cluster.scheduler_address,
        r"with daskrf\.connect\('inproc://.*'\) as",
    ),
    "something else": (
        lambda cluster: ThreadPoolExecutor(1),
        r"ThreadPoolExecutor; daskrf\.local_cluster",
    ),
    "a number": (lambda cluster: 2, r"not of type int; daskrf\.local_cluster\(\) makes one"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_no_client_is_refused(name: str, cluster: LocalCluster, tmp_path: Path) -> None:
    make, message = UNUSABLE[name]
    with pytest.raises(InputError, match=message):
        fingerprint(tmp_path, make(cluster))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=message):
        daskrf.fit_map(daskrf.LandmarkFeatures(8), tmp_path / "fp", client=make(cluster))


def test_closed_and_asynchronous_clients_are_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    with Client(cluster, set_as_default=False) as client:
        pass
    with pytest.raises(InputError, match=r"client is closed, or its scheduler is gone; give a new one"):
        fingerprint(tmp_path, client)

    async def ask() -> None:
        address = cluster.scheduler_address
        async with Client(address, asynchronous=True, set_as_default=False) as client:
            with pytest.raises(InputError, match=r"client is asynchronous, .* without asynchronous=True"):
                fingerprint(tmp_path, client)

    asyncio.run(ask())
    assert list(tmp_path.iterdir()) == []
    assert fingerprint(tmp_path).kept == 2  # and the corrected call works

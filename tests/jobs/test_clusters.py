"""Clusters that are started here or joined: who can see their dashboard, and what they refuse at once."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import distributed
import psutil
import pytest
from distributed.comm import CommClosedError

from daskrf.errors import InputError, WorkerError
from daskrf.workers.clients import client_of
from daskrf.workers.clusters import connect, local_cluster


def listening() -> set[str]:
    """Return the addresses at which this process and its children listen."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    by_process = (process.net_connections("inet") for process in processes)
    return {c.laddr.ip for connections in by_process for c in connections if c.status == psutil.CONN_LISTEN}


def test_nothing_listens_to_the_network_unless_asked_to() -> None:
    before = listening()
    with local_cluster(n_workers=1, memory_limit="1GiB") as client:
        assert listening() - before <= {"127.0.0.1"}
        assert client.dashboard_link.startswith("http://127.0.0.1:")
        port = int(client.dashboard_link.split(":")[2].partition("/")[0])
        assert port in {c.laddr.port for c in psutil.Process().net_connections("inet")}
    with (
        dask.config.set({"daskrf.dashboard-address": ":0"}),
        local_cluster(n_workers=1, memory_limit="1GiB"),
    ):
        assert "0.0.0.0" in listening()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_workers": 2, "memory_limit": "200MiB"}, "at least.* would have 200.0 MiB; raise memory_limit"),
        ({"n_workers": 10**6}, "start fewer workers"),
        ({"n_workers": 1, "memory_limit": "much"}, "a size such as 4GiB"),
        ({"n_workers": 0}, "at least 1"),
    ],
)
def test_workers_that_could_not_live_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message), local_cluster(**options):
        pass


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ("tls://127.0.0.1:8786", InputError, "needs certificates; give the authority"),
        ("nowhere", WorkerError, "No Dask scheduler answers at nowhere"),
        ("http://127.0.0.1:8786", WorkerError, "http:// is not one of tcp://, tls://, ws://, wss://"),
        ("tcp://[::1", WorkerError, "No Dask scheduler answers"),
        ("inproc://x", WorkerError, "inproc:// is not one of"),
    ],
)
def test_an_address_that_cannot_be_joined_is_one_sentence(address: str, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message) as error, connect(address):
        pass
    assert "\n" not in str(error.value)


def test_a_scheduler_that_is_not_there_leaves_no_client_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the default, and every later compute() would wait for it."""
    original = distributed.Client.__init__
    monkeypatch.setattr(
        distributed.Client,
        "__init__",
        lambda self, *arguments, **options: original(self, *arguments, **{**options, "timeout": "1s"}),
    )
    with pytest.raises(WorkerError, match="No Dask scheduler answers"), connect("tcp://127.0.0.1:9"):
        pass
    assert da.ones(3).sum().compute() == 3


def test_a_joined_scheduler_is_the_default() -> None:
    plain = {"distributed.comm.require-encryption": False}
    with dask.config.set(plain), local_cluster(1, "1GiB", dashboard=False) as client:
        address = client.scheduler.address
        for name in (address, address.removeprefix("tcp://")):
            with connect(name) as joined:
                assert distributed.get_client() is joined
                assert da.ones(3).sum().compute() == 3


def test_a_client_of_what_was_said() -> None:
    with client_of(workers=0) as client:
        assert client is None
    with client_of(workers=1, memory_limit="1GiB") as client:
        assert client is not None
        assert client.submit(sum, [1, 2]).result() == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": "1-4"}, "on this machine must be a whole number, not 1-4"),
        ({"cluster": "no.yaml", "workers": 3}, "Cannot read the cluster file no.yaml"),
        ({"scheduler_file": "no.json"}, "There is no scheduler file no.json"),
    ],
)
def test_a_client_of_what_cannot_be_meant(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words), client_of(**options):
        pass


def test_what_fails_while_a_failed_start_is_closed_does_not_hide_why(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    def fail(**options: Any) -> None:
        starts.append(options)
        try:
            raise RuntimeError("Nanny failed to start worker process")
        except RuntimeError:
            raise CommClosedError("Broken pipe") from BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("daskrf.workers.clusters.LocalCluster", fail)
    message = r"have died 3 times while they started \(Nanny failed to start worker process\)"
    with pytest.raises(WorkerError, match=message), local_cluster(1, dashboard=False):
        pass
    assert len(starts) == 3

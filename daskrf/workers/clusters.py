"""Where tasks run: this program, a cluster started on this machine, or one that is already running."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
import psutil
from dask.utils import parse_bytes, parse_timedelta
from distributed import Client, LocalCluster
from distributed.comm import parse_address, parse_host_port
from distributed.comm.core import CommClosedError, FatalCommClosedError
from distributed.system import MEMORY_LIMIT

from daskrf.blas import processors
from daskrf.errors import InputError, WorkerError, printable
from daskrf.quantities import format_bytes
from daskrf.workers.heldsignals import SignalsHeld
from daskrf.workers.security import (
    certificates,
    certificates_to_join,
    check_certificates,
    private_scratch,
)

# Dask blames every task that was sent to a dead worker, and scaling down counts as a death. If the scheduler
# gives up a task, daskrf.workers.execution submits it again, a limited number of times.
CONFIG = {
    "distributed.scheduler.allowed-failures": 10,
    # A local cluster drops a worker for good if its restart takes longer than this. The default of 15 seconds
    # is too short for a busy machine, and a cluster that has dropped all its workers never finishes a task.
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.worker.memory.terminate": 0.98,
    # Tasks have predicted memory, freed when they end: a pause would free nothing, and might never end.
    "distributed.worker.memory.pause": False,
    "distributed.worker.profile.enabled": False,
    "distributed.comm.timeouts.connect": "60s",
}

LEAST_MEMORY = 320 * 2**20
"""Minimum memory of a worker in bytes: Python and its libraries take 275 MiB before any work."""

_LOOPBACK = "127.0.0.1"
_SCHEMES = ("tcp", "tls", "ws", "wss")  # of addresses of schedulers
_ANSWER_SECONDS = 30.0  # a worker in a long call of compiled code answers late, a frozen one never
_STARTS = 3  # attempts to start a cluster on this machine, if workers die while they start
_FILE_SECONDS = 2.0  # to wait for a scheduler file that is half written


@dataclass
class Jobs:
    """The jobs submitted to a batch system, and what became of them.

    Attributes
    ----------
    system : str
        Name of the batch system.
    maximum : int
        Threads of all workers when all jobs run.
    memory : int
        Bytes that one task may use.
    logs : Path
        Folder of the jobs' log files.
    interface : str or None
        Network interface by which workers reach the scheduler.
    patience : float
        Seconds from the start of a job until its workers must have joined.
    accepted : set of str
        Numbers of the jobs that, as far as known, wait or run.
    barren : list of (str, float)
        Jobs that have started but brought no worker: their numbers, and when they started.
    refusal : str
        Message of the batch system when it last rejected a job.
    refused : float
        Time of that rejection, by `time.monotonic`.
    notes : tuple of str
        Sentences on the settings for the user.
    """

    system: str
    maximum: int
    memory: int
    logs: Path
    interface: str | None = None
    patience: float = 120.0  # enough to import Python from a slow file system
    accepted: set[str] = field(default_factory=set)
    barren: list[tuple[str, float]] = field(default_factory=list)
    refusal: str = ""
    refused: float = 0.0
    notes: tuple[str, ...] = ()

    def logs_of(self, number: str) -> list[Path]:
        """Return the log files with the number of a job in their names, the latest last."""
        times = {}
        with suppress(OSError):
            for path in self.logs.iterdir():
                if number in re.findall(r"\d+", path.name):
                    times[path] = path.stat().st_mtime
        return sorted(times, key=lambda path: times[path])


class QueuedClient(Client):
    """A client whose workers are batch jobs, which may still wait in the queue."""

    def __init__(self, *arguments: Any, jobs: Jobs, **keywords: Any) -> None:
        self.jobs = jobs
        super().__init__(*arguments, **keywords)


def seconds_to_wait() -> float | None:
    """Return how many seconds a run waits for its first worker, or None if the user has not set it.

    Raises
    ------
    InputError
        If the Dask setting ``daskrf.wait-for-workers`` is not a time.
    """
    value = dask.config.get("daskrf.wait-for-workers", None)
    try:
        return None if value is None else float(parse_timedelta(value, default="s"))
    except (ValueError, KeyError, TypeError):
        shown = printable(repr(value), 80)
        raise InputError(
            f"The setting daskrf.wait-for-workers must be a time such as 10 minutes, not {shown}."
        ) from None


def dashboard_address() -> str:
    """Return the address of the dashboard of a scheduler started here: this host only, unless set otherwise.

    Anyone who reaches a dashboard sees paths, addresses and code. The Dask setting `daskrf.dashboard-address`
    opens it to others; ``":8787"`` opens it to all networks.
    """
    return str(dask.config.get("daskrf.dashboard-address", f"{_LOOPBACK}:0"))


def dashboard_config() -> dict[str, object]:
    """Return the Dask settings that make the link to the dashboard name its true address."""
    if not dashboard_address().startswith(f"{_LOOPBACK}:"):
        return {}
    return {"distributed.dashboard.link": f"{{scheme}}://{_LOOPBACK}:{{port}}/status"}


@contextmanager
def local_cluster(
    n_workers: int | None = None, memory_limit: str | int | None = None, dashboard: bool = True
) -> Iterator[Client]:
    """Start workers on this machine, one process and one thread each, and yield a client.

    RDKit and most of Python hold the interpreter lock: threads of one worker would wait for each other.

    Parameters
    ----------
    n_workers : int, optional
        Number of worker processes; default: the number of processors available.
    memory_limit : str or int, optional
        Memory of one worker, such as ``"4GiB"``; default: the machine's share.
    dashboard : bool
        Serve Dask's dashboard on a free port, visible on this host only. The Dask setting
        ``daskrf.dashboard-address`` changes that: ``":8787"`` shows it to anyone on the network.

    Yields
    ------
    distributed.Client
        Another client of the same cluster needs its certificates: ``Client(client.scheduler.address,
        security=client.security)``.

    Raises
    ------
    InputError
        If there are no workers, or their memory is too small for their libraries.
    WorkerError
        If workers repeatedly die while they start.

    Examples
    --------
    >>> from daskrf import local_cluster
    >>> with local_cluster(n_workers=1, dashboard=False) as client:  # doctest: +SKIP
    ...     client.submit(sum, [1, 2]).result()
    3
    """
    n_workers = processors() if n_workers is None else n_workers
    if n_workers < 1:
        raise InputError(f"The number of workers must be at least 1, not {n_workers}.")
    limit, way_out = MEMORY_LIMIT // n_workers, "start fewer workers"
    if memory_limit is not None:
        way_out = "raise memory_limit"
        try:
            limit = parse_bytes(memory_limit)
        except ValueError:
            raise InputError(f"The memory limit must be a size such as 4GiB, not {memory_limit!r}.") from None
    if limit < LEAST_MEMORY:
        raise InputError(
            f"A worker needs at least {format_bytes(LEAST_MEMORY)} of memory for Python and its libraries, "
            f"and would have {format_bytes(limit)}; {way_out}."
        )
    with (
        dask.config.set(CONFIG | dashboard_config()),
        private_scratch(),
        SignalsHeld() as held,
        _started(n_workers, limit, dashboard) as cluster,
    ):
        held.release()
        with Client(cluster) as client:
            yield client


def _started(n_workers: int, memory_limit: int, dashboard: bool) -> LocalCluster:
    """Start workers on this machine, and try again if one is killed while it starts."""
    for attempt in range(_STARTS):
        try:
            return LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=memory_limit,
                dashboard_address=dashboard_address(),
                scheduler_kwargs={"dashboard": dashboard},
                security=certificates(),
                silence_logs=50,
            )
        except (RuntimeError, CommClosedError) as error:
            # On Python 3.14 closing what has started fails, too, and hides why it is closed.
            first = error.__context__ if isinstance(error, CommClosedError) else error
            if first is None:
                raise
            if attempt + 1 == _STARTS:
                raise WorkerError(
                    f"Worker processes have died {_STARTS} times while they started ({_root_of(first)}); "
                    "find out what kills them, most often a lack of memory, or run without (0 workers)."
                ) from error
    raise AssertionError


def _root_of(error: BaseException) -> str:
    """Return the message of the first error in a chain."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


@contextmanager
def connect(
    scheduler: str | None = None,
    scheduler_file: str | Path | None = None,
    *,
    ca_file: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
) -> Iterator[Client]:
    """Join a scheduler that is already running, by address or by its scheduler file.

    Parameters
    ----------
    scheduler : str, optional
        Address of the scheduler.
    scheduler_file : str or Path, optional
        The file that the scheduler wrote.
    ca_file, cert, key : str or Path, optional
        Certificates, for a scheduler that asks for them; default: from Dask's configuration.

    Raises
    ------
    InputError
        If neither or both are given, the scheduler file does not exist, or certificates cannot be used.
    WorkerError
        If the scheduler does not answer.
    """
    if (scheduler is None) == (scheduler_file is None):
        raise InputError("Give either the address of the scheduler or its scheduler file.")
    options: dict[str, object] = {"address": scheduler}
    address = scheduler
    if scheduler_file is not None:
        address = _check_scheduler_file(Path(scheduler_file))
        options = {"scheduler_file": str(scheduler_file)}
    where = scheduler or scheduler_file
    security = certificates_to_join(ca_file, cert, key)
    if _check_address(str(address), str(where)) in ("tls", "wss"):
        check_certificates(security, str(where))
    try:
        # Not as the default client: if it failed, it would stay the default, and every compute() wait for it.
        client = Client(**options, security=security, timeout="30s", set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise _no_answer(str(where), error) from error
    with client, client.as_current():
        yield client


def _no_answer(where: str, error: Exception) -> WorkerError:
    if isinstance(error, FatalCommClosedError) or "SSL" in str(error):
        return WorkerError(
            f"The scheduler at {where} and this client do not accept each other's certificates "
            f"({_root_of(error)}); give certificates of the authority that the scheduler trusts."
        )
    hint = " or, if the scheduler asks for certificates, write tls://" if "tcp://" in str(error) else ""
    return WorkerError(
        f"No Dask scheduler answers at {where} ({error}); check the address, and that it is running{hint}."
    )


def _check_address(address: str, where: str) -> str:
    """Return the scheme of an address; refuse one that Dask's client would retry forever."""
    scheme, place = parse_address(address)
    if scheme not in _SCHEMES:
        schemes = ", ".join(f"{name}://" for name in _SCHEMES)
        raise _no_answer(where, ValueError(f"{scheme}:// is not one of {schemes}"))
    try:
        parse_host_port(place)
    except ValueError as error:
        raise _no_answer(where, error) from error
    return str(scheme)


def _check_scheduler_file(path: Path) -> str:
    """Return the address in a scheduler file; wait a moment for one that dask scheduler is still writing."""
    if not path.is_file():
        raise InputError(f"There is no scheduler file {path}; start dask scheduler first.")
    end = time.monotonic() + _FILE_SECONDS
    while (address := _address_in(path)) is None:
        if time.monotonic() > end:
            raise InputError(f"{path} is not a scheduler file; give the one that dask scheduler wrote.")
        time.sleep(0.1)
    return address


def _address_in(path: Path) -> str | None:
    try:
        address = json.loads(path.read_text())["address"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return address if isinstance(address, str) else None


def ask_workers(client: Client, function: Callable[..., object], *arguments: object) -> dict[str, Any]:
    """Call a function on every worker that can be reached, and return the answers by address.

    Unlike `Client.run`, it does not wait forever: if a worker is silent, it returns no answers at all,
    although the other workers have made the call.
    """
    try:
        return dict(
            client.sync(
                client._run, function, *arguments, on_error="ignore", callback_timeout=_ANSWER_SECONDS
            )
        )
    except TimeoutError:
        return {}


def worker_threads(client: Client | None) -> int:
    """Return the number of tasks that can run at once, when all jobs run; 1 without a cluster."""
    if client is None:
        return 1
    if isinstance(client, QueuedClient):  # an adaptive cluster starts only as many workers as have tasks
        return client.jobs.maximum
    return max(1, sum(client.nthreads().values()))


def worker_memory(client: Client | None) -> int:
    """Return the memory in bytes that one task may use: the smallest worker's, or this machine's."""
    total = int(min(MEMORY_LIMIT, psutil.virtual_memory().total))
    if client is None:
        return total
    if isinstance(client, QueuedClient):
        return client.jobs.memory
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    limits = [w["memory_limit"] // max(1, w["nthreads"]) for w in workers if w.get("memory_limit")]
    return min(limits, default=total)

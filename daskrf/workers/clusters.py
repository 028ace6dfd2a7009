"""Where tasks run: this process, a cluster started on this machine, or one that is there already."""

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
from distributed.comm.core import FatalCommClosedError
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

# A worker that dies is blamed for every task it had been sent, and scaling down counts as dying. What the
# scheduler gives up, daskrf.workers.execution submits again; a task that kills every worker must still end.
CONFIG = {
    "distributed.scheduler.allowed-failures": 10,
    # A local cluster drops a worker for good whose restart takes longer than this, 15 seconds by default: too
    # short for a busy machine, and a cluster that has dropped all of its workers never ends a task again.
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.worker.memory.terminate": 0.98,
    # What tasks hold is predicted, and gone when they end: a pause would free nothing, and might not end.
    "distributed.worker.memory.pause": False,
    "distributed.worker.profile.enabled": False,
    "distributed.comm.timeouts.connect": "60s",
}

LEAST_MEMORY = 320 * 2**20
"""Bytes that a worker needs to live: Python and its libraries take 275 MiB before any work."""

_LOOPBACK = "127.0.0.1"
_SCHEMES = ("tcp", "tls", "ws", "wss")  # of addresses of schedulers
_ANSWER_SECONDS = 30.0  # a worker in the middle of a long call of C answers late, a frozen one never
_STARTS = 3  # of a cluster on this machine whose workers die before they work
_FILE_SECONDS = 2.0  # for which a scheduler file may be half written


@dataclass
class Jobs:
    """The jobs that a batch system was asked for, whether or not they have started, and what became of them.

    Attributes
    ----------
    system : str
        Name of the batch system.
    maximum : int
        Threads of all workers when all jobs run.
    memory : int
        Bytes that one task may use.
    logs : Path
        Where jobs write what they print.
    interface : str or None
        Network interface by which workers reach the scheduler.
    patience : float
        Seconds from the start of a job until its workers must be there.
    accepted : set of str
        Numbers of the jobs that wait or run, as far as is known.
    barren : list of (str, float)
        Numbers of the jobs that have begun without any worker coming, and when they began.
    refusal : str
        What the batch system said when it last refused a job.
    refused : float
        When that was, by `time.monotonic`.
    notes : tuple of str
        Sentences on the request that the user should see.
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
        """Return the files that a job has printed to, by the number in their names; the latest last."""
        times = {}
        with suppress(OSError):
            for path in self.logs.iterdir():
                if number in re.findall(r"\d+", path.name):
                    times[path] = path.stat().st_mtime
        return sorted(times, key=lambda path: times[path])


class QueuedClient(Client):
    """A client whose workers are jobs, and may still wait in the queue."""

    def __init__(self, *arguments: Any, jobs: Jobs, **keywords: Any) -> None:
        self.jobs = jobs
        super().__init__(*arguments, **keywords)


def seconds_to_wait() -> float | None:
    """Return for how long a run waits for its first worker, if the user said so.

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
            f"The setting daskrf.wait-for-workers is a time such as 10 minutes, not {shown}."
        ) from None


def dashboard_address() -> str:
    """Return where the dashboard of a scheduler that is started here listens: on this host alone, or as set.

    Anyone who reaches a dashboard sees paths, addresses and code. The Dask setting `daskrf.dashboard-address`
    opens it, to all networks by ``":8787"``.
    """
    return str(dask.config.get("daskrf.dashboard-address", f"{_LOOPBACK}:0"))


def dashboard_config() -> dict[str, Any]:
    """Return the Dask settings by which the link to the dashboard names the address where it listens."""
    if not dashboard_address().startswith(f"{_LOOPBACK}:"):
        return {}
    return {"distributed.dashboard.link": f"{{scheme}}://{_LOOPBACK}:{{port}}/status"}


@contextmanager
def local_cluster(
    n_workers: int | None = None, memory_limit: str | int | None = None, dashboard: bool = True
) -> Iterator[Client]:
    """Start workers on this machine, one process and one thread each, and yield a client.

    RDKit and most of Python hold the interpreter lock, so threads of one process would wait for
    each other; every stage is therefore run by processes.

    Parameters
    ----------
    n_workers : int, optional
        Number of worker processes; default: the processors this process may use.
    memory_limit : str or int, optional
        Memory of one worker, such as ``"4GiB"``; default: the machine's share.
    dashboard : bool
        Serve Dask's dashboard on a free port of this host, for this host only: see the Dask setting
        ``daskrf.dashboard-address``, such as ``":8787"`` for anyone on the network.

    Yields
    ------
    distributed.Client
        Another client of the same cluster needs its certificates: ``Client(client.scheduler.address,
        security=client.security)``.

    Raises
    ------
    InputError
        If there are no workers, or one has less memory than its libraries take.
    WorkerError
        If workers die again and again while they start.

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
            raise InputError(f"The memory limit is a size such as 4GiB, not {memory_limit!r}.") from None
    if limit < LEAST_MEMORY:
        raise InputError(
            f"A worker needs {format_bytes(LEAST_MEMORY)} of memory at least, for Python and its libraries, "
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
    """Start workers on this machine; what kills one while it starts may not kill the next."""
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
        except RuntimeError as error:
            if attempt + 1 == _STARTS:
                raise WorkerError(
                    f"Worker processes have died {_STARTS} times while they started ({_root_of(error)}); see "
                    "what kills them, most often too little memory, or run without them (0 workers)."
                ) from error
    raise AssertionError


def _root_of(error: BaseException) -> str:
    """Return what the first of a chain of errors says."""
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
        Its address.
    scheduler_file : str or Path, optional
        The file that it wrote.
    ca_file, cert, key : str or Path, optional
        Certificates, for a scheduler that asks for them; default: those of Dask's configuration.

    Raises
    ------
    InputError
        If neither or both are given, the scheduler file does not exist, or certificates cannot be used.
    WorkerError
        If the scheduler does not answer.
    """
    if (scheduler is None) == (scheduler_file is None):
        raise InputError("Give either the address of the scheduler or its scheduler file.")
    options: dict[str, Any] = {"address": scheduler}
    address = scheduler
    if scheduler_file is not None:
        address = _check_scheduler_file(Path(scheduler_file))
        options = {"scheduler_file": str(scheduler_file)}
    where = scheduler or scheduler_file
    security = certificates_to_join(ca_file, cert, key)
    if _check_address(str(address), str(where)) in ("tls", "wss"):
        check_certificates(security, str(where))
    try:
        # Not as the default: a client that fails would stay that, and every later compute() wait for it.
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
    """Return the scheme of an address; refuse one by which no scheduler can be joined.

    Dask's client would never be rid of it.
    """
    scheme, place = parse_address(address)
    if scheme not in _SCHEMES:
        known = ", ".join(f"{name}://" for name in _SCHEMES)
        raise _no_answer(where, ValueError(f"{scheme}:// is none of {known}"))
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


def ask_workers(client: Client, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Call a function on every worker and return the answers by address, of those that can be reached.

    A worker that stays silent is not waited for without end, as by `Client.run`: then there are no answers,
    but the others have made the call all the same.
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
    """Return the number of tasks that can run at once (1 in this process), or will when all jobs run."""
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

"""The client for the user's choice of where to work, and checks of one that a caller gives."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from distributed import Client, default_client, get_worker

from daskrf.errors import ClientWarning, InputError, printable
from daskrf.workers.batch import jobqueue_cluster
from daskrf.workers.clusters import connect, local_cluster

_SHOWN = 80  # characters of a text in a message


@contextmanager
def client_of(
    *,
    workers: int | str | None = None,
    memory_limit: str | int | None = None,
    cluster: str | Path | None = None,
    scheduler: str | None = None,
    scheduler_file: str | Path | None = None,
    tls_ca_file: str | Path | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
) -> Iterator[Client | None]:
    """Yield the client for the user's choice of where to work; None works in this program.

    Parameters
    ----------
    workers : int or str, optional
        Number of worker processes to start; 0 runs everything in the main program. With a batch system also a
        range, such as 1-64.
    memory_limit : str or int, optional
        Memory of one worker on this machine, such as 4GiB or 500MiB.
    cluster : str or Path, optional
        Submit the workers as jobs to a batch system (slurm, pbs, sge, lsf, ...), with the options in Dask's
        configuration (jobqueue.yaml) or in a file of that format, such as cluster/slurm.yaml.
    scheduler : str, optional
        Join a running Dask scheduler, such as tls://10.0.0.1:8786.
    scheduler_file : str or Path, optional
        Join the running Dask scheduler that wrote this file.
    tls_ca_file : str or Path, optional
        Certificate of the authority (CA) of the tls:// scheduler to join; default: from Dask's configuration.
    tls_cert : str or Path, optional
        Your certificate from that authority.
    tls_key : str or Path, optional
        Key of your certificate, unless it is in the same file.

    Yields
    ------
    distributed.Client or None

    Raises
    ------
    InputError
        If an argument cannot be used.
    WorkerError
        If the scheduler does not answer, or workers die while they start.

    Examples
    --------
    >>> with client_of(workers=0) as client:
    ...     print(client)
    None
    """
    certificates = {"ca_file": tls_ca_file, "cert": tls_cert, "key": tls_key}
    joins = scheduler is not None or scheduler_file is not None
    if any(path is not None for path in certificates.values()) and not joins:
        raise InputError("Certificates are for joining a scheduler; give its address or its scheduler file.")
    if cluster is not None:
        chosen: Any = jobqueue_cluster(cluster, workers)
    elif joins:
        chosen = connect(scheduler, scheduler_file, **certificates)
    elif workers is not None and not str(workers).isdecimal():
        raise InputError(f"The number of workers on this machine must be a whole number, not {workers}.")
    elif workers is not None and int(workers) == 0:
        chosen = nullcontext()
    else:
        chosen = local_cluster(None if workers is None else int(workers), memory_limit)
    with chosen as client:
        yield client


def check_client(client: object) -> None:
    """Raise if a function cannot work with what it was given as its client; None is no client.

    Raises
    ------
    InputError
        If it is something else than a client, such as a cluster or an address, or is asynchronous or closed.

    Examples
    --------
    >>> check_client(None)
    """
    if client is None:
        return
    if isinstance(client, str):
        address = printable(client, _SHOWN)
        raise InputError(
            f"client is a text: join the scheduler at an address by `with daskrf.connect({address!r}) as "
            "client:`."
        )
    if not isinstance(client, Client):
        is_cluster = hasattr(client, "scheduler_address") and hasattr(client, "scale")
        way_out = "give distributed.Client(cluster)" if is_cluster else "daskrf.local_cluster() makes one"
        raise InputError(
            f"client must be a distributed.Client, not of type {type(client).__name__}; {way_out}."
        )
    if client.asynchronous:
        raise InputError(
            "The Dask client is asynchronous, and a function here waits for its work: give a client without "
            "asynchronous=True, outside of coroutines."
        )
    if client.status in ("closing", "closed"):
        raise InputError(
            "The Dask client is closed, or its scheduler is gone; give a new one, and call the function "
            "again: finished work is kept."
        )


def warn_of_unused_client(stacklevel: int) -> None:
    """Warn if there is a default client of Dask; a task on a worker has none of its own."""
    client = None
    with suppress(ValueError):
        client = default_client()
    if client is None or client.asynchronous or client.status != "running" or _is_in_task():
        return
    address = getattr(client.scheduler, "address", "")
    warnings.warn(
        f"There is a Dask client ({address}), which is not used: pass client=distributed.default_client() to "
        "work on its workers, instead of in this process.",
        ClientWarning,
        stacklevel=stacklevel + 1,
    )


def _is_in_task() -> bool:
    try:
        get_worker()
    except ValueError:
        return False
    return True

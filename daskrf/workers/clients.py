"""The client for the user's choice of where to work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from distributed import Client

from daskrf.errors import InputError
from daskrf.workers.batch import jobqueue_cluster
from daskrf.workers.clusters import connect, local_cluster


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

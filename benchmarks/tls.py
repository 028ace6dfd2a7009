"""What TLS between command, scheduler and workers costs: a screen on two workers, with TLS and plain in turn.

Also the certificates, which are made once a run, and a small task, sent and answered.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import dask
import pandas as pd
from distributed import Client

from daskrf import fingerprint, fit, local_cluster, screen
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.workers.security import certificates

_TASKS = 40  # in a round
_BYTES = 4096  # that a task is sent


def _length(text: bytes) -> int:
    return len(text)


def _seconds_of_task(client: Client) -> float:
    """Return the seconds of a small task, sent and answered, one after the other."""
    start = time.perf_counter()
    for i in range(_TASKS):
        client.submit(_length, bytes([i]) * _BYTES, pure=False).result()
    return (time.perf_counter() - start) / _TASKS


def _seconds_of_screen(client: Client, folder: Path) -> float:
    """Return the seconds of a screen, from SMILES to hits."""
    start = time.perf_counter()
    screen(folder / "model", folder / "library.smi", folder / "hits.parquet", overwrite=True, client=client)
    seconds = time.perf_counter() - start
    (folder / "hits.parquet").unlink()
    return seconds


def _prepare(folder: Path, n: int) -> None:
    """Write a library and a model."""
    smiles = ReactionLibrary().smiles(0, n)
    (folder / "library.smi").write_text("".join(f"{text} m{i}\n" for i, text in enumerate(smiles)))
    pd.DataFrame({"smiles": smiles[:500], "y": score(smiles[:500])}).to_csv(folder / "y.csv", index=False)
    fingerprint(folder / "y.csv", folder / "fp")
    fit(folder / "fp", folder / "y.csv", folder / "model", key="smiles", quick=True, direction="minimize")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--molecules", type=int, default=60_000, help="of the library")
    parser.add_argument("--rounds", type=int, default=7, help="pairs of screens")
    options = parser.parse_args()
    start = time.perf_counter()
    certificates()
    print(f"certificates: {time.perf_counter() - start:.2f} s, once a run")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        _prepare(Path(name), options.molecules)
        clients = []
        for encrypted in (False, True):
            with dask.config.set({"distributed.comm.require-encryption": encrypted}):
                clients.append(stack.enter_context(local_cluster(2, "3GiB", dashboard=False)))
        for what, seconds in (
            ("a small task", _seconds_of_task),
            (
                f"a screen of {options.molecules:,} SMILES",
                lambda client: _seconds_of_screen(client, Path(name)),
            ),
        ):
            list(map(seconds, clients))  # what is compiled and imported the first time
            pairs = [list(map(seconds, clients)) for _ in range(options.rounds)]
            plain, tls = map(statistics.median, zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in pairs)
            print(f"{what}: plain {plain:.4g} s, TLS {tls:.4g} s, median ratio of pairs {ratio:.4f}")


if __name__ == "__main__":
    main()

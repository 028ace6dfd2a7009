"""An S3 server on the loopback interface, and a fresh bucket for each test."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import dask
import pytest

from tests.objects.remote import Remote, remote

pytest.importorskip("obstore", reason="obstore is not installed: pip install 'daskrf[s3]'")
pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")

_numbers = itertools.count()


def new_bucket(endpoint: str) -> Remote:
    name = f"bucket-{next(_numbers)}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return remote(f"s3://{name}/")


@pytest.fixture(scope="package")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a moto server; this process and the workers that it starts find it in their environment."""
    said = tmp_path_factory.mktemp("moto") / "log"
    with said.open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]  # any free port
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        while not (found := re.search(r"Running on (http://\S+)", said.read_text())):
            assert server.poll() is None, said.read_text()
            time.sleep(0.1)
        url = found[1]
        # Workers that are forked would not find it, since their server is older.
        started = dask.config.set({"distributed.worker.multiprocessing-method": "spawn"})
        with started, pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("AWS_")]:
                patch.delenv(name)
            patch.setenv("AWS_ENDPOINT_URL", url)
            patch.setenv("AWS_ACCESS_KEY_ID", "tests")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "tests")
            patch.setenv("NO_PROXY", "127.0.0.1")
            yield url
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def bucket(endpoint: str) -> Remote:
    """An empty bucket."""
    return new_bucket(endpoint)

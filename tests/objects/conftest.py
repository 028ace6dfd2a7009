"""An S3 server on the loopback interface, and a fresh bucket for each test."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from daskrf.paths import as_path

pytest.importorskip("obstore", reason="obstore is not installed: pip install 'daskrf[s3]'")
pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")

_numbers = itertools.count()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def new_bucket(endpoint: str) -> Path:
    name = f"bucket-{next(_numbers)}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return as_path(f"s3://{name}/")


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a moto server; this process and the workers that it starts find it in their environment."""
    port = free_port()
    log = (tmp_path_factory.mktemp("moto") / "log").open("wb")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with contextlib.suppress(urllib.error.URLError):
                urllib.request.urlopen(f"{url}/moto-api/").close()
                break
            assert server.poll() is None, "the S3 server has ended"
            time.sleep(0.1)
        with pytest.MonkeyPatch.context() as patch:
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
        log.close()


@pytest.fixture
def bucket(endpoint: str) -> Path:
    """An empty bucket."""
    return new_bucket(endpoint)

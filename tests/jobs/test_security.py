"""Who can join a cluster: those with its certificates, and no other user of the machine."""

from __future__ import annotations

import asyncio
import datetime
import multiprocessing
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import distributed
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed import Client, Scheduler, Worker
from distributed.security import Security

from daskrf.cli.app import run
from daskrf.errors import InputError, WorkerError
from daskrf.workers.clients import client_of
from daskrf.workers.clusters import connect, local_cluster
from daskrf.workers.security import certificates, certificates_to_join, private_scratch, written

ONE = {"n_workers": 1, "memory_limit": "1GiB", "dashboard": False}


class Authority:
    """A certificate authority, with the files of a site: ca.pem and NAME.pem, NAME.key for each name."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.name = folder, name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed(name, self.key, authority=True)
        self.ca = self._write(f"{name}-ca.pem", self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, password: bytes | None = None, days: int = 1) -> tuple[str, str]:
        """Return the files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        lock: Any = serialization.NoEncryption()
        if password is not None:
            lock = serialization.BestAvailableEncryption(password)
        text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
        certificate = self._signed(name, key, days=days)
        return (
            self._write(f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM)),
            self._write(f"{name}.key", text),
        )

    def _signed(self, name: str, key: Any, authority: bool = False, days: int = 1) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = subject if authority else self.certificate.subject
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=2))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def _write(self, name: str, text: bytes) -> str:
        (self.folder / name).write_bytes(text)
        return str(self.folder / name)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("site"), "site")
    for name in ("scheduler", "worker", "client"):
        authority.issue(name)
    return authority


def settings(site: Authority, *roles: str) -> dict[str, str]:
    """Return Dask's settings for certificates of a site."""
    of_roles = {
        f"distributed.comm.tls.{role}.{kind}": f"{site.folder}/{role}.{ending}"
        for role in roles
        for kind, ending in (("cert", "pem"), ("key", "key"))
    }
    return of_roles | {"distributed.comm.tls.ca-file": site.ca}


@pytest.fixture(scope="module")
def address(site: Authority) -> Iterator[str]:
    """The address of a scheduler with the certificates of the site, and one worker, in another process."""
    parent, child = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(child, settings(site, "scheduler", "worker")), daemon=True
    )
    process.start()
    yield parent.recv()
    process.kill()
    process.join()


def _serve(pipe: Any, config: dict[str, str]) -> None:
    async def serve() -> None:
        here = {"host": "127.0.0.1", "security": Security(require_encryption=True)}
        async with (
            Scheduler(protocol="tls://", port=0, dashboard=False, **here) as scheduler,
            Worker(scheduler.address, nthreads=1, dashboard=False, **here),
        ):
            pipe.send(scheduler.address)
            await scheduler.finished()

    with dask.config.set(config):
        asyncio.run(serve())


def test_only_who_has_the_certificates_joins_a_local_cluster(tmp_path: Path) -> None:
    with local_cluster(**ONE) as client:
        address = client.scheduler.address
        (worker,) = client.scheduler_info()["workers"]
        (nanny,) = [each["nanny"] for each in client.scheduler_info()["workers"].values()]
        assert all(each.startswith("tls://127.0.0.1:") for each in (address, worker, nanny))
        for strange in (Security(), Security.temporary()):
            for each in (address, address.replace("tls://", "tcp://")):
                with pytest.raises((OSError, TypeError, RuntimeError)):
                    asyncio.run(_greet(each, strange))
        asyncio.run(_greet(address, client.security))
        with Client(address, security=client.security, set_as_default=False) as joined:
            assert joined.submit(sum, [1, 2]).result() == 3


async def _greet(address: str, security: Security) -> None:
    comm = await distributed.comm.connect(address, timeout=120, **security.get_connection_args("client"))
    await comm.write({"op": "identity", "reply": True})
    assert (await comm.read())["type"] == "Scheduler"
    await comm.close()


STRANGER = """\
import asyncio, os, sys
from distributed.core import rpc
from distributed.protocol.pickle import dumps

async def ask():
    try:
        async with rpc(sys.argv[1], timeout=300) as scheduler:
            answer = await scheduler.run_function(function=dumps(os.getuid), args=dumps(()), kwargs=dumps({}))
        return f"a function ran as uid {answer['result']}"
    except PermissionError:
        raise
    except OSError:
        return "refused"

async def ask_as_another():
    await ask()  # for what is imported on the way: this user's Python may be closed to others
    os.setuid(65534)
    print(await ask())

asyncio.run(ask_as_another())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_run_a_function_here() -> None:
    """With plain TCP, which is Dask's default, that user runs it as this one."""

    def answer_of(address: str) -> str:
        command = [sys.executable, "-c", STRANGER, address]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr

    with local_cluster(**ONE) as client:
        plain = client.scheduler.address.replace("tls://", "tcp://")
        assert answer_of(plain) == "refused"
    with (
        dask.config.set({"distributed.comm.require-encryption": False}),
        local_cluster(**ONE) as client,
    ):
        assert client.scheduler.address.startswith("tcp://127.0.0.1:")
        assert answer_of(client.scheduler.address) == "a function ran as uid 0"


def test_encryption_may_be_required() -> None:
    with (
        dask.config.set({"distributed.comm.require-encryption": True}),
        local_cluster(**ONE) as client,
    ):
        assert client.submit(sum, [1, 2]).result() == 3


def test_what_workers_spill_is_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask unpickles it, and imports from its folder; in /tmp, anyone may have made that folder before."""
    shared = tmp_path / "tmp"
    (shared / "dask-scratch-space").mkdir(parents=True)
    for folder in (shared, shared / "dask-scratch-space"):
        folder.chmod(0o777)
    with dask.config.set({"temporary-directory": str(shared)}), local_cluster(**ONE) as client:
        (worker,) = client.scheduler_info()["workers"].values()
        spills = Path(worker["local_directory"])
        assert str(shared / "dask-scratch-space") not in sys.path
    assert spills.relative_to(shared).parts[0] == f"daskrf-{os.getuid()}"
    mode = (shared / f"daskrf-{os.getuid()}").stat().st_mode
    assert stat.S_IMODE(mode) == 0o700


def test_a_scratch_folder_of_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"daskrf-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"daskrf-{os.getuid()}").chmod(0o777)
    with (
        dask.config.set({"temporary-directory": str(tmp_path)}),
        pytest.raises(InputError, match="is open to others"),
        private_scratch(),
    ):
        pass


def test_certificates_for_jobs_are_files_of_this_user_alone(tmp_path: Path) -> None:
    security = Security.temporary()
    with written(security, tmp_path / "shared") as files:
        paths = [Path(files.tls_ca_file), Path(files.tls_worker_cert), Path(files.tls_worker_key)]
        assert [path.read_text() for path in paths] == [
            security.tls_ca_file,
            security.tls_worker_cert,
            security.tls_worker_key,
        ]
        for path in paths:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        files.get_connection_args("worker")
    assert list((tmp_path / "shared").iterdir()) == []
    assert "\n" in security.tls_worker_key  # as it was


def exported(folder: Path, **environment: str) -> dict[str, str]:
    """Return what a launch script reads, as settings of Dask."""
    run = [sys.executable, "-m", "daskrf.workers.security", str(folder)]
    printed = subprocess.run(
        run, capture_output=True, text=True, check=True, env=os.environ | environment
    ).stdout
    lines = [line.removeprefix("export ") for line in printed.splitlines()]
    return dict(shlex.split(line)[0].split("=", 1) for line in lines)


def test_a_launch_script_reads_certificates_made_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "a job's"
    variables = exported(folder)
    (made,) = folder.iterdir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()} == {0o600}
    assert variables.pop("DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION") == "True"
    names = ["CA_FILE", *(f"{r}__{p}" for r in ("CLIENT", "SCHEDULER", "WORKER") for p in ("CERT", "KEY"))]
    assert set(variables) == {f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in names}
    keys = (name.removeprefix("DASK_").lower().replace("__", ".").replace("_", "-") for name in variables)
    with dask.config.set(dict(zip(keys, variables.values(), strict=True))):
        for role in ("scheduler", "worker", "client"):
            Security().get_connection_args(role)


def test_a_launch_script_takes_certificates_of_the_site(site: Authority, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    settings = {"ca_file": str(site.ca)}
    for role in ("scheduler", "worker", "client"):
        both = tmp_path / f"{role}.pem"
        both.write_text("".join(Path(f"{site.folder}/{role}.{e}").read_text() for e in ("pem", "key")))
        settings[f"{role}__cert"] = str(both)
    variables = {f"DASK_DISTRIBUTED__COMM__TLS__{name.upper()}": path for name, path in settings.items()}
    assert exported(tmp_path / "job", **variables) == variables | {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"
    }
    assert not (tmp_path / "job").exists()
    assert exported(tmp_path / "job", DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION="False") == {}


def test_certificates_of_a_site_stay_where_they_are(site: Authority, tmp_path: Path) -> None:
    with dask.config.set(settings(site, "scheduler", "worker", "client")):
        security = certificates()
        assert security.require_encryption
        assert security.tls_scheduler_cert == f"{site.folder}/scheduler.pem"
        with written(security, tmp_path / "shared") as files:
            assert files is security
        assert not (tmp_path / "shared").exists()
        with local_cluster(**ONE) as client:
            assert client.submit(sum, [1, 2]).result() == 3
            with connect(client.scheduler.address) as other:
                assert other.submit(sum, [1, 3]).result() == 4
    with dask.config.set(settings(site, "client")):  # of another cluster, that of the site
        assert "\n" in certificates().tls_scheduler_key


def test_a_scheduler_of_the_site_is_joined(site: Authority, address: str, tmp_path: Path) -> None:
    files = {"ca_file": site.ca, "cert": f"{site.folder}/client.pem", "key": f"{site.folder}/client.key"}
    with connect(address, **files) as client:
        assert client.submit(sum, [1, 2]).result() == 3
    both = tmp_path / "both.pem"
    both.write_text(Path(files["cert"]).read_text() + Path(files["key"]).read_text())
    with client_of(scheduler=address, tls_ca_file=site.ca, tls_cert=both) as joined:
        assert joined is not None
        assert joined.submit(sum, [1, 3]).result() == 4
    with dask.config.set(settings(site, "client")), connect(address) as client:
        assert client.submit(sum, [1, 4]).result() == 5


def test_the_command_joins_a_scheduler_of_the_site(
    site: Authority, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.smi").write_text("CCO A\nCCN B\n")
    command = ["fingerprint", str(tmp_path / "a.smi"), "-o", str(tmp_path / "fp"), "--scheduler", address]
    assert run(command) == 1
    message = capsys.readouterr().err
    assert f"{address} needs certificates; give the authority (tls-ca-file)" in message
    options = [f"--tls-cert={site.folder}/client.pem", f"--tls-key={site.folder}/client.key"]
    assert run([*command, "--tls-ca-file", str(tmp_path / "none.pem"), *options]) == 1
    message = capsys.readouterr().err
    assert f"Cannot read {tmp_path}/none.pem, the certificate of the authority: No such file" in message
    assert run([*command, "--tls-ca-file", site.ca, *options]) == 0
    assert run(["fingerprint", "x", "-o", "y", *options]) == 2
    assert "--tls-cert needs --scheduler or --scheduler-file; give one of them" in capsys.readouterr().err


def test_strangers_with_certificates_of_their_own_are_refused(
    site: Authority, address: str, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other", "other")
    cert, key = other.issue("client")
    expired = site.issue("expired", days=-1)
    for ca, pair in ((other.ca, (cert, key)), (site.ca, (cert, key)), (site.ca, expired)):
        with (
            pytest.raises(WorkerError, match="do not accept each other's certificates") as error,
            connect(address, ca_file=ca, cert=pair[0], key=pair[1]),
        ):
            pass
        assert "\n" not in str(error.value)
    with (
        pytest.raises(WorkerError, match=r"if the scheduler asks for certificates, write tls://"),
        connect(address.replace("tls://", "tcp://")),
    ):
        pass


@pytest.mark.parametrize("what", ["ca_file", "cert", "key"])
@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), ("", "not (the|a) certificate"), ("no PEM", "not (the|a) certificate")],
)
def test_files_that_are_no_certificates_are_named(
    what: str, content: str | None, words: str, site: Authority, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.pem"
    if content is not None:
        bad.write_text(content)
    files = {"ca_file": site.ca, "cert": f"{site.folder}/client.pem", "key": f"{site.folder}/client.key"}
    with pytest.raises(InputError, match=words) as error:
        certificates_to_join(**files | {what: str(bad)})
    assert str(bad) in str(error.value)
    assert "\n" not in str(error.value)


def test_keys_that_do_not_fit_are_refused(site: Authority, tmp_path: Path) -> None:
    files = {"ca_file": site.ca, "cert": f"{site.folder}/client.pem"}
    with pytest.raises(InputError, match=r"worker\.key are not a certificate and its key"):
        certificates_to_join(**files, key=f"{site.folder}/worker.key")
    cert, key = site.issue("locked", password=b"secret")  # OpenSSL would ask for it on the terminal
    with pytest.raises(InputError, match=r"locked\.key has a password"):
        certificates_to_join(ca_file=site.ca, cert=cert, key=key)
    with pytest.raises(InputError, match="takes three files"):
        certificates_to_join(ca_file=site.ca)
    with (
        pytest.raises(InputError, match="Certificates are for joining a scheduler"),
        client_of(workers=1, tls_ca_file=site.ca),
    ):
        pass


def test_settings_that_name_no_file_are_named(site: Authority) -> None:
    missing = settings(site, "scheduler", "worker", "client") | {
        "distributed.comm.tls.worker.cert": "/none/worker.pem"
    }
    with (
        dask.config.set(missing),
        pytest.raises(InputError, match=r"Cannot read /none/worker\.pem, the certificate of the worker"),
        local_cluster(**ONE),
    ):
        pass

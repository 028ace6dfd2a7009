"""Who may talk to a scheduler: certificates made for one run, or the user's own."""

from __future__ import annotations

import copy
import os
import shlex
import shutil
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
from distributed.security import Security

from daskrf.errors import InputError
from daskrf.files.disk import private_folder

Certificates = Any
"""A `distributed.security.Security`, whose attributes type checkers do not see."""

_ROLES = ("client", "scheduler", "worker")
_PARTS = ("cert", "key")
_MISSING = (
    "the authority (tls-ca-file), your certificate (tls-cert) and its key (tls-key), or Dask's settings "
    "distributed.comm.tls.ca-file, .client.cert and .client.key"
)


def certificates() -> Certificates:
    """Return the certificates for a cluster started here; nobody can join without them.

    They come from Dask's configuration if it names the authority and a certificate each for scheduler,
    workers and clients. Otherwise they are made for this cluster, and end with it. The Dask setting
    ``distributed.comm.require-encryption: false`` turns them off.

    Raises
    ------
    InputError
        If a file that Dask's configuration names is missing or is not a certificate.
    """
    if dask.config.get("distributed.comm.require-encryption", None) is False:
        return Security()
    named: Certificates = Security()
    if named.tls_ca_file and all(getattr(named, f"tls_{role}_cert") for role in _ROLES):
        for role in _ROLES:
            _check(named, role)
        named.require_encryption = True
        return named
    return Security.temporary()


def certificates_to_join(
    ca_file: str | Path | None = None, cert: str | Path | None = None, key: str | Path | None = None
) -> Certificates:
    """Return the certificates for joining a running scheduler: the files given, or Dask's configuration.

    Raises
    ------
    InputError
        If a file is missing or is not a certificate, or some are given without the others.
    """
    arguments = {"tls_ca_file": ca_file, "tls_client_cert": cert, "tls_client_key": key}
    files = {name: os.fspath(path) for name, path in arguments.items() if path is not None}
    security: Certificates = Security(**files)
    if security.tls_ca_file and security.tls_client_cert:
        _check(security, "client")
    elif files:
        raise InputError(f"Joining a scheduler with certificates takes three files; give {_MISSING}.")
    return security


def check_certificates(security: Certificates, where: str) -> None:
    """Refuse to join a scheduler that needs certificates without them."""
    if not (security.tls_ca_file and security.tls_client_cert):
        raise InputError(f"{where} needs certificates; give {_MISSING}.")


def _check(security: Certificates, role: str) -> None:
    """Refuse unusable certificates, and name the file, which OpenSSL does not."""
    files = security.get_tls_config_for_role(role)
    key = files["key"] or files["cert"]
    named = {
        "certificate of the authority": files["ca_file"],
        f"certificate of the {role}": files["cert"],
        f"key of the {role}": key,
    }
    for what, path in named.items():
        if "\n" not in path:
            _check_file(path, what)
    if "\n" not in key and b"ENCRYPTED" in Path(key).read_bytes():
        raise InputError(f"The key in {key} has a password, which Dask cannot ask for; give a key without.")
    try:
        ssl.create_default_context().load_verify_locations(**_as_authority(files["ca_file"]))
    except (ssl.SSLError, ValueError) as error:
        raise InputError(
            f"{_shown(files['ca_file'])} is not the certificate of an authority ({_reason(error)})."
        ) from error
    try:
        security.get_connection_args(role)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(
            f"{_shown(files['cert'])} and {_shown(key)} are not a certificate and its key ({_reason(error)})."
        ) from error


def _check_file(path: str, what: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Cannot read {path}, the {what}: {why}.") from error


def _as_authority(text: str) -> dict[str, Any]:
    return {"cadata": text} if "\n" in text else {"cafile": text}


def _shown(text: str) -> str:
    return "The certificate in Dask's configuration" if "\n" in text else text


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)


@contextmanager
def written(security: Certificates, folder: Path) -> Iterator[Certificates]:
    """Write certificates that are in memory to files until the context ends, and yield those files.

    Parameters
    ----------
    security : Security
        Certificates that are already files stay where they are.
    folder : Path
        Where to make the folder of the files: on a file system that all workers share.

    Yields
    ------
    Security
        The same certificates, with texts replaced by files that only this user can read.

    Raises
    ------
    InputError
        If the folder cannot be written to.
    """
    private = _folder(folder) if _texts(security) else None
    try:
        yield security if private is None else _files(security, private)
    finally:
        if private is not None:
            with suppress(OSError):
                shutil.rmtree(private)


def _texts(security: Certificates) -> dict[str, str]:
    """Return the certificates and keys that are in memory."""
    names = [f"tls_{role}_{kind}" for role in _ROLES for kind in _PARTS]
    return {name: text for name in ["tls_ca_file", *names] if "\n" in (text := getattr(security, name) or "")}


def _folder(parent: Path) -> Path:
    """Make a folder for this user alone."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".certificates-", dir=parent.resolve()))
    except OSError as error:
        raise InputError(
            f"Cannot write certificates for the workers to {parent}: {error.strerror}; set "
            "shared-temp-directory to a folder that all nodes share."
        ) from error


def _files(security: Certificates, private: Path) -> Certificates:
    """Write certificates in memory to files in a folder, and return the certificates with these files."""
    files = copy.copy(security)
    for name, text in _texts(security).items():
        path = private / f"{name}.pem"
        with open(path, "x", opener=_private) as file:
            file.write(text)
        setattr(files, name, str(path))
    return files


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def private_scratch() -> Iterator[None]:
    """Make Dask write to a folder of this user alone until the context ends.

    Dask unpickles spilled data and imports from its folder; by default that is one in /tmp, which anyone
    could have made before.
    """
    base = dask.config.get("temporary-directory", None)
    with dask.config.set({"temporary-directory": str(private_folder(None if base is None else Path(base)))}):
        yield


def _main() -> None:
    """Write certificates to a folder, and print shell commands that make Dask's own programs use them.

    ``cluster/daskrf-slurm.sbatch`` calls ``python -m daskrf.workers.security FOLDER``.
    """
    security = certificates()
    if not security.tls_ca_file:
        return
    files = _files(security, _folder(Path(sys.argv[1]))) if _texts(security) else security
    named = {"CA_FILE": files.tls_ca_file}
    for role in _ROLES:
        named |= {f"{role.upper()}__{kind.upper()}": getattr(files, f"tls_{role}_{kind}") for kind in _PARTS}
    for name, path in named.items():
        if path:  # a certificate and its key may be one file
            print(f"export DASK_DISTRIBUTED__COMM__TLS__{name}={shlex.quote(path)}")
    print("export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True")


if __name__ == "__main__":
    try:
        _main()
    except InputError as error:
        sys.exit(f"daskrf: {error}")

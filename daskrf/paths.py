"""Paths that users give: local ones, and ``s3://bucket/key`` for objects of S3-compatible storage.

`as_path` turns both into something that has the part of `pathlib.Path` that daskrf uses. Objects are read
and written through obstore, which finds endpoint, region and credentials in the usual ``AWS_*`` variables of
each process.
"""

from __future__ import annotations

import errno
import fnmatch
import functools
import glob
import io
import os
import posixpath
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from daskrf.errors import InputError, StoreError

__all__ = [
    "ObjectError",
    "ObjectPath",
    "as_list",
    "as_path",
    "each",
    "private_folder",
    "read_many",
    "readable",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_COLLAPSED = re.compile(r"s3:/[^/]")  # what pathlib makes of a URL
_LEAST_AHEAD, _MOST_AHEAD = 64 << 10, 8 << 20  # bytes that a reader fetches at once
_RETRIES = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}  # run_tasks tries again after that
_CONNECTIONS = 32  # small objects that are fetched or deleted at once


class ObjectError(OSError):
    """What a storage says in place of an answer; its ``strerror`` is a phrase for users."""


def as_path(given: str | os.PathLike[str]) -> Path:
    """Return the path that a user means by a file name or by a URL ``s3://bucket/key``.

    Parameters
    ----------
    given : str or path
        A URL as text; everything else is local.

    Returns
    -------
    Path
        Or an `ObjectPath`, which has the part of `pathlib.Path` that daskrf uses, and is typed as one so that
        the code that works with both needs to know of one.

    Raises
    ------
    InputError
        Another scheme, a URL without a bucket, one that `pathlib` has taken for a file name, or a name that
        is not UTF-8 text: JSON and Parquet have no other.
    StoreError
        obstore is not installed.

    Examples
    --------
    >>> as_path("library.smi").name
    'library.smi'
    """
    if isinstance(given, ObjectPath):
        return cast(Path, given)
    text = os.fspath(given)
    if "\0" in text or not _is_utf8(text):
        raise InputError(f"the path {text} is not UTF-8 text; give another one, or a link to it")
    scheme = _SCHEME.match(text)
    if _COLLAPSED.match(text):
        raise InputError(f"{text} looks like an object that pathlib took for a file; give its URL as text.")
    if scheme is None:
        return Path(given)
    if scheme[1].lower() != "s3":
        raise InputError(f"{text} cannot be used: paths are local, or objects s3://bucket/key.")
    bucket, _, key = text[scheme.end() :].partition("/")
    key = key.rstrip("/")
    if not bucket or any(part in ("", ".", "..") for part in key.split("/") if key):
        raise InputError(f"{text} is no object: write s3://bucket/key, without empty parts, '.' and '..'.")
    _obstore()
    return cast(Path, ObjectPath(bucket, key))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def private_folder() -> Path:
    """Return this user's folder of temporary files for what is uploaded, which is made, and nobody else's.

    Where temporary files are, everybody can write, and make a folder of this name first: what is put into
    it, and deleted in it, must be this user's.

    Raises
    ------
    InputError
        Somebody else has made it, others may read or write in it, or it is a link.
    """
    folder = Path(tempfile.gettempdir(), f"daskrf-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InputError(
            f"The folder {folder} for temporary files belongs to another user, is open to others, or is a "
            "link; delete it, or set TMPDIR to a folder of your own."
        )
    return folder


def readable(path: Path) -> Any:
    """What libraries read that take the name of a file or an open one: the path, or the opened object."""
    return path.open("rb") if isinstance(path, ObjectPath) else path


def as_list(given: Any) -> list[Any]:
    """One path, or several, as a list."""
    return [given] if isinstance(given, (str, os.PathLike, ObjectPath)) else list(given)


def _obstore() -> Any:
    """obstore, an optional dependency."""
    try:
        import obstore
        import obstore.store
    except ImportError:
        raise StoreError(
            "objects s3://... need obstore: install daskrf[s3] here and wherever workers run"
        ) from None
    return obstore


@functools.lru_cache(maxsize=16)
def _bucket(name: str, environment: tuple[tuple[str, str], ...]) -> Any:
    """The connection of this process to a bucket; another environment makes another one."""
    endpoint = _endpoint(dict(environment))
    # Who names an endpoint without TLS wants it.
    client = {"allow_http": True} if endpoint.startswith("http://") else {}
    return _obstore().store.S3Store(name, client_options=client, retry_config=_RETRIES)


def _endpoint(environment: dict[str, str]) -> str:
    return environment.get("AWS_ENDPOINT_URL") or environment.get("AWS_ENDPOINT") or "https://amazonaws.com"


class ObjectPath:
    """An object of S3-compatible storage, or all objects below a key, with the methods of a path.

    It has no ``__fspath__``: a function that knows local files only fails at once. There are no directories:
    `mkdir` does nothing, and a "directory" is there while an object is below it.

    Parameters
    ----------
    bucket, key : str
        The key without a slash at either end; empty for the whole bucket.

    Examples
    --------
    >>> path = ObjectPath("bucket", "runs/real.fingerprints")
    >>> path / "plan.json", path.with_name("hits.parquet").stem
    (ObjectPath('s3://bucket/runs/real.fingerprints/plan.json'), 'hits')
    """

    __slots__ = ("bucket", "key")

    def __init__(self, bucket: str, key: str) -> None:
        self.bucket = bucket
        self.key = key

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and (self.bucket, self.key) == (other.bucket, other.key)

    def __lt__(self, other: ObjectPath) -> bool:
        return (self.bucket, self.key) < (other.bucket, other.key)

    def __hash__(self) -> int:
        return hash((self.bucket, self.key))

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectPath, (self.bucket, self.key)

    def __truediv__(self, other: str | PurePosixPath) -> ObjectPath:
        return ObjectPath(self.bucket, posixpath.join(self.key, str(other)))

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.key)

    @property
    def name(self) -> str:
        """Last part of the key."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """Name without its last ending."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """Last ending of the name."""
        return self._pure.suffix

    @property
    def parent(self) -> ObjectPath:
        """What the key is below; the bucket for a key of one part."""
        return ObjectPath(self.bucket, self.key.rpartition("/")[0])

    def from_key(self, key: str) -> Path:
        """Another object of the bucket."""
        return cast(Path, ObjectPath(self.bucket, key))

    def with_name(self, name: str) -> ObjectPath:
        """Another name beside this one."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> ObjectPath:
        """Another last ending."""
        return self.with_name(self._pure.with_suffix(suffix).name)

    def relative_to(self, other: ObjectPath) -> PurePosixPath:
        """The key below that of `other`."""
        if self.bucket != other.bucket:
            raise ValueError(f"{self} is not below {other}")
        return self._pure.relative_to(other.key or ".")

    def as_posix(self) -> str:
        """The URL."""
        return str(self)

    def resolve(self) -> ObjectPath:
        """Itself: a URL is absolute."""
        return self

    absolute = resolve

    @property
    def store(self) -> Any:
        """The obstore store of the bucket."""
        aws = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
        return _bucket(self.bucket, aws)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what obstore raises inside the block into an `OSError`.

        Raises
        ------
        FileNotFoundError
            There is no such object.
        ObjectError
            Everything else.
        """
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._error(error) from None
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self)) from None
        except _obstore().exceptions.BaseError as error:
            raise self._error(error) from None

    def _error(self, error: BaseException) -> ObjectError:
        """What went wrong, by the text of the error, which is all that obstore tells."""
        text, kinds = str(error), _obstore().exceptions
        refused = (kinds.PermissionDeniedError, kinds.UnauthenticatedError)
        if "NoSuchBucket" in text:
            number, what = errno.ENOENT, f"there is no bucket {self.bucket}; check its name and the endpoint"
        elif "/latest/api/token" in text or "/latest/meta-data" in text:  # where a cloud has them
            what = "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY here and for all workers"
            number = errno.EACCES
        elif isinstance(error, refused) or "InvalidAccessKeyId" in text or "SignatureDoesNotMatch" in text:
            number, what = errno.EACCES, "access is denied; check the credentials and what they may do"
        elif isinstance(error, kinds.PreconditionError):
            number, what = errno.ESTALE, "it was replaced while it was in use; run the same command again"
        elif "error sending request" in text:
            place = _endpoint(dict(os.environ))
            number, what = (
                errno.EIO,
                f"no answer from {place}; check the endpoint and the network",
            )
        else:
            number, what = errno.EIO, text.split("\n", 1)[0][:300]
        return ObjectError(number, what, str(self))

    def head(self) -> dict[str, Any]:
        """Size, e_tag and last_modified of the object."""
        with self.errors():
            return cast(dict[str, Any], _obstore().head(self.store, self.key))

    def is_file(self) -> bool:
        """Whether there is an object of this key."""
        try:
            return bool(self.key) and bool(self.head())
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Whether there are objects below this key."""
        return next(self._listed(some=True), None) is not None

    def exists(self) -> bool:
        """Whether there is an object of this key, or below it."""
        return self.is_file() or self.is_dir()

    def stat(self) -> os.stat_result:
        """Size and time of last change; the rest is 0."""
        found = self.head()
        return os.stat_result((0, 0, 0, 0, 0, 0, found["size"], 0, found["last_modified"].timestamp(), 0))

    def _listed(self, some: bool = False) -> Iterator[dict[str, Any]]:
        """What lies below the key: key and size."""
        prefix = f"{self.key}/" if self.key else None
        with self.errors():
            for page in _obstore().list(self.store, prefix=prefix, chunk_size=1 if some else 1000):
                yield from ({**item, "path": str(item["path"])} for item in page)

    def sizes(self) -> dict[str, int]:
        """Bytes of every object below this one, by its key relative to this one."""
        start = len(self.key) + 1 if self.key else 0
        return {item["path"][start:]: int(item["size"]) for item in self._listed()}

    def sizes_of(self, names: Iterable[str]) -> dict[str, int]:
        """Bytes of those of some objects that are there, by key relative to this one.

        Objects two parts deep or more, as the chunks of an array, are listed together.
        """
        folders, found = {"/".join(name.split("/")[:2]): name.count("/") > 1 for name in names}, {}
        for folder, many in folders.items():
            if many:
                sizes = (self / folder).sizes()
                found.update({f"{folder}/{name}": size for name, size in sizes.items()})
            elif (size := (self / folder).size()) is not None:
                found[folder] = size
        return found

    def size(self) -> int | None:
        """Bytes of the object, None where there is none."""
        try:
            return int(self.head()["size"])
        except FileNotFoundError:
            return None

    def rglob(self, pattern: str) -> Iterator[ObjectPath]:
        """Every object below this one whose name matches."""
        for key in self.sizes():
            if fnmatch.fnmatchcase(posixpath.basename(key), pattern):
                yield self / key

    def matching(self) -> list[Path]:
        """The objects that match the key as a pattern, sorted; a part ``**`` stands for any parts."""
        parts = self.key.split("/")
        fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        below = ObjectPath(self.bucket, "/".join(parts[:fixed]))
        found = (key for key in below.sizes() if _matches(key.split("/"), parts[fixed:]))
        return [cast(Path, below / key) for key in sorted(found)]

    def iterdir(self) -> Iterator[ObjectPath]:
        """What is directly below this one."""
        prefix = f"{self.key}/" if self.key else None
        with self.errors():
            found = _obstore().list_with_delimiter(self.store, prefix=prefix)
        names = [*found["common_prefixes"], *(item["path"] for item in found["objects"])]
        yield from (ObjectPath(self.bucket, str(name).rstrip("/")) for name in names)

    def open(self, mode: str = "rb", buffering: int = -1) -> IO[bytes]:
        """Open the object for reading; it is fetched in ranges, as it is read."""
        if mode != "rb":
            raise ValueError(f"objects are opened with 'rb', not with {mode!r}")
        found = self.head()
        raw = _Reader(self, int(found["size"]), found["e_tag"])
        return cast(IO[bytes], raw) if buffering == 0 else io.BufferedReader(raw, _LEAST_AHEAD)

    def read_bytes(self) -> bytes:
        """The whole object."""
        with self.errors():
            return bytes(_obstore().get(self.store, self.key).bytes())

    def read_text(self) -> str:
        """The whole object as UTF-8 text."""
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        """Write the whole object: readers see the old one or the new one."""
        with self.errors():
            _obstore().put(self.store, self.key, data)

    def upload(self, file: Path) -> None:
        """Write the content of a local file: readers see the old object or the new one."""
        with self.errors():
            _obstore().put(self.store, self.key, file)

    def create(self, data: bytes) -> bool:
        """Write the object if there is none (a conditional PUT); False where there is one.

        It may be there by this very call, where an answer was lost on the way: compare the content.
        """
        with self.errors():
            try:
                _obstore().put(self.store, self.key, data, mode="create")
            except _obstore().exceptions.AlreadyExistsError:
                return False
        return True

    def replace_version(self, data: bytes, e_tag: str) -> str | None:
        """Write the object if it still is the one of `e_tag` (a conditional PUT); the new tag, or None."""
        with self.errors():
            try:
                return str(_obstore().put(self.store, self.key, data, mode={"e_tag": e_tag})["e_tag"])
            except (_obstore().exceptions.PreconditionError, FileNotFoundError):
                return None

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object."""
        if not missing_ok:
            self.head()
        with self.errors():
            _obstore().delete(self.store, self.key)

    def remove(self) -> None:
        """Delete the object and all below it."""
        keys = [self.key, *(item["path"] for item in self._listed())]
        with self.errors():
            _obstore().delete(self.store, keys)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: there are no directories."""


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Whether parts of a key match parts of a pattern."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    if not parts or not fnmatch.fnmatchcase(parts[0], pattern[0]):
        return False
    return _matches(parts[1:], pattern[1:])


class _Reader(io.RawIOBase):
    """One version of an object, fetched in ranges that grow while it is read in order."""

    def __init__(self, path: ObjectPath, size: int, e_tag: str | None) -> None:
        self._path, self._size, self._e_tag = path, size, e_tag
        self._position = self._start = 0
        self._window = b""
        self._ahead = _LEAST_AHEAD

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._position >= self._size or not len(view):
            return 0
        at = self._position - self._start
        if not 0 <= at < len(self._window):
            self._fetch(len(view))
            at = 0
        piece = self._window[at : at + len(view)]
        view[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def _fetch(self, wanted: int) -> None:
        in_order = self._window and self._position == self._start + len(self._window)
        self._ahead = min(2 * self._ahead, _MOST_AHEAD) if in_order else _LEAST_AHEAD
        stop = min(self._size, self._position + max(wanted, self._ahead))
        options: dict[str, Any] = {"range": (self._position, stop)}
        if self._e_tag:
            options["if_match"] = self._e_tag
        with self._path.errors():
            found = _obstore().get(self._path.store, self._path.key, options=options)
            self._window, self._start = bytes(found.bytes()), self._position


def each(function: Any, arguments: Iterable[Any]) -> list[Any]:
    """Call a function on all arguments, many at once: each call waits for the storage."""
    arguments = list(arguments)
    if len(arguments) < 2:
        return [function(argument) for argument in arguments]
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        return list(pool.map(function, arguments))


def read_many(paths: Iterable[Path]) -> list[bytes | None]:
    """Read small objects, many at once; None for each that is not there.

    Raises
    ------
    OSError
        The storage fails.
    """
    return each(_read_or_none, paths)


def _read_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None

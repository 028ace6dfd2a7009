"""Storage backends: local files and objects of S3-compatible storage behind one interface.

`as_path` turns user input into a name: a `pathlib.Path`, or a `Url` for ``s3://bucket/key``. Names are pure
paths; every operation on the files or objects goes through ``backend(name)``. Objects are read and written
through obstore, which takes endpoint, region and credentials from the usual ``AWS_*`` variables of the
program or worker.
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
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, ClassVar, cast

from daskrf.errors import InputError, StoreError
from daskrf.files.disk import (
    READ_BYTES,
    ObjectError,
    file_errors,
    make_folders,
    private_folder,
    remove,
    sync_directory,
    sync_files,
    temporary_name,
)
from daskrf.files.disk import remove_stale as remove_stale_files

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_COLLAPSED = re.compile(r"s3:/[^/]")  # a URL mangled by pathlib
_LEAST_AHEAD, _MOST_AHEAD = 64 << 10, 8 << 20  # bytes that a reader fetches at once
_RETRIES = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}  # after that, run_tasks retries
_SMALL_FILES = 2 * 2**20  # bytes: two workers start in the time in which one reads some 20,000 molecules
_CONNECTIONS = 32  # small objects transferred concurrently
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe would wait for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Url(PurePosixPath):
    """Name of an object ``s3://bucket/key``, or of all objects below a key; there are no directories.

    Examples
    --------
    >>> name = Url("s3://bucket/runs/real.fingerprints")
    >>> str(name / "plan.json"), name.with_name("hits.parquet").stem, name.bucket, name.key
    ('s3://bucket/runs/real.fingerprints/plan.json', 'hits', 'bucket', 'runs/real.fingerprints')
    """

    def __str__(self) -> str:
        return f"s3://{'/'.join(self.parts[1:])}" if self.parts[:1] == ("s3:",) else super().__str__()

    as_posix = __str__

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is an object, and a local file is needed here")

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self.parts[1]

    @property
    def key(self) -> str:
        """Key without a slash at either end; empty for the whole bucket."""
        return "/".join(self.parts[2:])


def as_path(location: str | os.PathLike[str]) -> PurePath:
    """Return the name for a file path or a URL ``s3://bucket/key`` given by the user.

    Parameters
    ----------
    location : str or path
        A URL as text; everything else is a local path.

    Returns
    -------
    Path or Url

    Raises
    ------
    InputError
        The text is empty, the scheme is another one, a URL has no bucket or was mangled by `pathlib`, or the
        name is not UTF-8 text, which JSON and Parquet require.
    StoreError
        obstore is not installed.

    Examples
    --------
    >>> as_path("library.smi").name
    'library.smi'
    """
    if isinstance(location, Url):
        return location
    if not isinstance(location, (str, os.PathLike)):
        raise InputError(f"a path is expected, not {type(location).__name__}.")
    text = os.fspath(location)
    if isinstance(location, str) and not text.strip():  # pathlib would take the current folder
        raise InputError("a path is empty; give the path of a file or a folder.")
    if "\0" in text or not _is_utf8(text):
        raise InputError(f"the path {text} is not UTF-8 text; give another one, or a link to it")
    scheme = _SCHEME.match(text)
    if _COLLAPSED.match(text):
        raise InputError(f"{text} looks like a URL that pathlib turned into a path; give the URL as text.")
    if scheme is None:
        path = Path(location)
        # Files beside a path are named after it, so it needs a name.
        return path if path.name not in ("", "..") else path.resolve()
    if scheme[1].lower() != "s3":
        raise InputError(f"{text} cannot be used: paths are local, or objects s3://bucket/key.")
    bucket, _, key = text[scheme.end() :].partition("/")
    key = key.rstrip("/")
    if not bucket or any(piece in ("", ".", "..") for piece in key.split("/") if key):
        raise InputError(
            f"{text} does not name an object: write s3://bucket/key, without empty parts, '.' or '..'."
        )
    _obstore()
    return Url("s3:", bucket, key)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_list(paths: Any) -> list[Any]:
    """Return one or several paths, or none, as a list."""
    if paths is None:
        return []
    return [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)


def backend(name: PurePath) -> Backend:
    """Return the backend that reads and writes `name`."""
    return _OBJECTS if isinstance(name, Url) else _FILES


def absolute(name: PurePath) -> str:
    """Return a name as text that means the same file or object to every program on this host."""
    return str(Path(name).resolve()) if backend(name).is_local else str(name)


def is_file(name: PurePath) -> bool:
    """Return whether there is a file or an object of this name."""
    return backend(name).size(name) is not None


def exists(name: PurePath) -> bool:
    """Return whether there is a file, link or folder of this name, or an object at or below it."""
    if backend(name).is_local:
        return os.path.lexists(name)
    return is_file(name) or bool(backend(name).names(name))


def size_of(path: PurePath) -> int:
    """Return the size of a file in bytes.

    Raises
    ------
    OSError
        There is no such file.
    """
    size = backend(path).size(path)
    if size is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return size


def are_small_files(paths: object) -> bool:
    """Return whether a path, or each of several, is a file, and all together are read within seconds.

    Examples
    --------
    >>> are_small_files(__file__), are_small_files("/"), are_small_files([])
    (True, False, False)
    """
    files = [as_path(each) for each in as_list(paths)]
    return bool(files) and all(map(is_file, files)) and sum(map(size_of, files)) <= _SMALL_FILES


def sizes_of(root: PurePath, names: Iterable[str]) -> dict[str, int]:
    """Return the sizes in bytes of the named files below `root`, by name, except those that do not exist."""
    # Files in subfolders, such as the chunks of an array, are listed together.
    folders = {"/".join(name.split("/")[:2]): name.count("/") > 1 for name in names}
    result = {}
    for folder, many in folders.items():
        if many:
            sizes = backend(root).sizes(root / folder)
            result.update({f"{folder}/{name}": size for name, size in sizes.items()})
        elif (size := backend(root).size(root / folder)) is not None:
            result[folder] = size
    return result


def matching(pattern: PurePath) -> list[PurePath]:
    """Return the files that match a name or pattern, sorted; ``**`` matches any number of path parts.

    A folder stands for all files in it and below it, except those whose names, or whose folders' names, begin
    with "." or "_".

    Raises
    ------
    InputError
        No file matches.
    """
    if backend(pattern).is_local:
        return _matching_files(os.path.expanduser(pattern))
    try:
        return _matching_objects(pattern)
    except OSError as error:
        raise InputError(f"{pattern} cannot be read: {error.strerror}.") from None


def readable(path: PurePath) -> Any:
    """Return a path or an open file, for libraries that accept either."""
    return Path(path) if backend(path).is_local else backend(path).open(path)


def read_each(root: PurePath, folder: str, names: Iterable[str]) -> Iterator[bytes | Exception]:
    """Yield the content of each small file inside a folder of `root`, or the error on reading it."""

    def read(name: str) -> bytes | Exception:
        try:
            return backend(root).read(root, f"{folder}/{name}")
        except (FileNotFoundError, ValueError) as error:
            return error

    yield from map(read, names) if backend(root).is_local else _each(read, names)


@contextmanager
def local_copy(path: PurePath) -> Iterator[Path]:
    """Yield a local file with the content of `path`; the copy of an object is deleted when the block ends."""
    if backend(path).is_local:
        yield Path(path)
        return
    copy = local_name(temporary_name(path.name))
    try:
        with backend(path).open(path) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target, READ_BYTES)
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def local_name(name: str) -> Path:
    """Return a path for a file to upload, in this user's private temporary folder, creating the folder."""
    folder = private_folder()
    remove_stale_files(folder)
    return folder / name


def atomic_write(path: PurePath, data: bytes, keep: bool = False) -> None:
    """Write a file atomically: a reader, or a crash, sees either the old file or the new one.

    Parameters
    ----------
    path : Path
        Final name; its directory must exist.
    data : bytes
        The content.
    keep : bool
        Keep a file that already exists, or that another program writes meanwhile.

    Raises
    ------
    StoreError
        Disk full, no permission, and so on.
    """
    with file_errors("write", path), backend(path).writing(path, keep) as temporary:
        temporary.write_bytes(data)


@contextmanager
def staging(folder: PurePath, stem: str) -> Iterator[Path]:
    """Yield a new local directory for files to publish in `folder`, deleted when the block ends.

    `folder` is created if needed; its parent must exist.
    """
    name = temporary_name(stem)
    place = Path(folder, name) if backend(folder).is_local else local_name(name)
    if backend(folder).is_local:
        make_folders(Path(folder.parent), Path(folder))
    place.mkdir()
    try:
        yield place
    finally:
        remove(place)


def publish(root: PurePath, staged: dict[PurePath, Path]) -> None:
    """Move staged files and directories, whose digests were computed, durably to their final names."""
    finals = [Path(final) for _, final in pairs(staged)] if backend(root).is_local else []
    for final in staged if finals else ():
        make_folders(Path(root), Path(final.parent))
    backend(root).move(staged)
    if finals:
        sync_files(Path(root), finals)


def sync(folder: PurePath) -> None:
    """Flush a folder to disk, so that creations and deletions in it survive a crash."""
    if backend(folder).is_local:
        sync_directory(Path(folder))


def remove_quietly(path: PurePath) -> None:
    """Delete a file or a folder as far as possible; leftovers do no harm."""
    with suppress(OSError):
        backend(path).remove(path)


def absent_parents(path: PurePath) -> list[PurePath]:
    """Return the local folders above a path that do not exist yet, the innermost first."""
    if not backend(path).is_local:
        return []
    return [folder for folder in path.parents if not os.path.lexists(folder)]


def remove_empty(folders: Iterable[PurePath]) -> None:
    """Delete the empty ones of some local folders, in the given order, innermost first."""
    for folder in folders:
        with suppress(OSError):
            if backend(folder).is_local:
                os.rmdir(folder)


def remove_stale(folder: PurePath, stem: str = "", *, all_writers: bool = False) -> int:
    """Delete temporary files of dead writers in a folder; see `daskrf.files.disk.remove_stale`."""
    return remove_stale_files(Path(folder), stem, all_writers=all_writers) if backend(folder).is_local else 0


def link_in(root: PurePath, names: Iterable[str]) -> str | None:
    """Return the first of the names below `root` that is a link; None if none is."""
    if not backend(root).is_local:
        return None
    return next((name for name in names if os.path.islink(root / name)), None)


def free_bytes(path: PurePath) -> int | None:
    """Return the free disk space in bytes at the location of `path`; None if unknown."""
    if not backend(path).is_local:
        return None
    start = Path(path).absolute()
    place = next(parent for parent in (start, *start.parents) if parent.exists())
    return shutil.disk_usage(place).free


def pairs(staged: dict[PurePath, Path]) -> list[tuple[Path, PurePath]]:
    """Return each staged file with its final name."""
    files: list[tuple[Path, PurePath]] = []
    for final, local in staged.items():
        inner = sorted(item for item in local.rglob("*") if item.is_file()) if local.is_dir() else [local]
        files += [(item, final / item.relative_to(local)) for item in inner]
    return files


def _matching_files(pattern: str) -> list[PurePath]:
    path = Path(os.path.abspath(pattern))
    if path.is_dir():
        return _files_below(path)
    if path.exists():  # a file may have brackets in its name
        return [path]
    if not glob.has_magic(pattern):
        raise InputError(f"{pattern} does not exist; check the path.")
    there = (Path(os.path.abspath(name)) for name in sorted(glob.glob(pattern, recursive=True)))
    files = [file for file in there if not file.is_dir()]
    if not files:
        raise InputError(f"no file matches {pattern!r}; check the pattern, and quote it in the shell.")
    return [*files]


def _files_below(folder: PurePath) -> list[PurePath]:
    """Return the files in a folder and below it; refuse a folder without files."""
    names = sorted(backend(folder).sizes(folder))
    files = [folder / name for name in names if not any(piece[0] in "._" for piece in name.split("/"))]
    if not files:
        there = exists(folder)
        raise InputError(
            f"{folder} {'is a folder without files' if there else 'does not exist'}; check the path."
        )
    return files


def _matching_objects(pattern: PurePath) -> list[PurePath]:
    if is_file(pattern):  # an object may have brackets in its name
        return [pattern]
    if not glob.has_magic(_key(pattern)):
        return _files_below(pattern)
    parts = _key(pattern).split("/")
    fixed = next(i for i, piece in enumerate(parts) if glob.has_magic(piece))
    root = pattern.parents[len(parts) - fixed - 1]
    below = backend(root).sizes(root)
    names = sorted(name for name in below if _matches(name.split("/"), parts[fixed:]))
    if not names:
        raise InputError(f"no object matches '{pattern}'; check the pattern, and quote it in the shell.")
    return [root / name for name in names]


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Return whether the parts of a key match the parts of a pattern."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    if not parts or not fnmatch.fnmatchcase(parts[0], pattern[0]):
        return False
    return _matches(parts[1:], pattern[1:])


class Held(ABC):
    """A file, such as a lock, that this program has created and keeps alive."""

    @abstractmethod
    def touch(self) -> None:
        """Update its modification time, unless another file has replaced it."""

    def close(self) -> None:  # noqa: B027
        """Release the file without deleting it."""


class Backend(ABC):
    """Operations that differ between files and objects; all raise `OSError` if the storage fails.

    A file *inside* a root is never reached through a link: if `inside` is given and the file, or a folder on
    the way to it, is a link, pipe or the like, `ValueError` is raised.
    """

    is_local: ClassVar[bool]  # whether these are local files, which have links and folders, and can grow

    @abstractmethod
    def size(self, path: PurePath) -> int | None:
        """Return the size of a file in bytes; None if there is none."""

    @abstractmethod
    def sizes(self, root: PurePath) -> dict[str, int]:
        """Return the sizes in bytes of all files below `root`, by name."""

    @abstractmethod
    def names(self, folder: PurePath) -> list[str]:
        """Return the names of a folder's direct entries; none if the folder does not exist."""

    @abstractmethod
    def open(self, path: PurePath, inside: str | None = None) -> io.BufferedReader:
        """Open a file for reading, with seeking; or the file `inside` the folder `path`."""

    @abstractmethod
    def read(self, path: PurePath, inside: str | None = None, most: int | None = None) -> bytes:
        """Return the content of a file; of one longer than `most` bytes, possibly only `most` + 1 bytes."""

    @abstractmethod
    def read_dated(self, folder: PurePath, name: str) -> tuple[bytes, float]:
        """Return the content of a file inside a folder, and its modification time by the storage's clock."""

    @abstractmethod
    def make(self, folder: PurePath, parents: bool = True) -> bool:
        """Create a folder, and its parents if `parents`; return whether it was missing."""

    @abstractmethod
    def create(self, path: PurePath, data: bytes) -> Held | None:
        """Create a small file atomically and hold it; return None if the file exists.

        An existing object with the same content counts as created by this call: the reply to an earlier
        attempt may have been lost.
        """

    @abstractmethod
    @contextmanager
    def writing(self, path: PurePath, keep: bool = False) -> Iterator[Path]:
        """Yield a local temporary path; if the block succeeds, the file moves to its final name atomically.

        With `keep`, a file that already has the final name stays: the first of several writers wins.
        """
        yield Path()  # pragma: no cover

    @abstractmethod
    def move(self, staged: dict[PurePath, Path]) -> None:
        """Move staged files and directories (final name -> staged) to their final names.

        Of several objects, the last one of `pairs` is uploaded after all others.
        """

    @abstractmethod
    def remove(self, path: PurePath) -> None:
        """Delete a file, or a folder with its contents, if there is one."""


class _HeldFile(Held):
    def __init__(self, file: int) -> None:
        self._file = file

    def touch(self) -> None:
        os.utime(self._file)  # the open file: a lock that has replaced it must not be touched

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._file)


class _Files(Backend):
    """Local files."""

    is_local = True

    def size(self, path: PurePath) -> int | None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def sizes(self, root: PurePath) -> dict[str, int]:
        start, sizes = len(str(root)) + 1, {}
        for folder, _, items in os.walk(root):
            for name in items:
                file = f"{folder}/{name}"
                with suppress(FileNotFoundError, NotADirectoryError):  # deleted meanwhile
                    sizes[file[start:]] = os.lstat(file).st_size
        return sizes

    def names(self, folder: PurePath) -> list[str]:
        try:
            return os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open(self, path: PurePath, inside: str | None = None) -> io.BufferedReader:
        if inside is None:
            return Path(path).open("rb")
        folder, _, last = inside.rpartition("/")
        with _folder(path, folder) as at:
            return os.fdopen(_regular_file(at, last, inside), "rb")

    def read(self, path: PurePath, inside: str | None = None, most: int | None = None) -> bytes:
        with self.open(path, inside) as file:
            return file.read() if most is None else file.read(most + 1)

    def read_dated(self, folder: PurePath, name: str) -> tuple[bytes, float]:
        with self.open(folder, name) as file:  # opening makes NFS ask the server for the time
            return file.read(), os.fstat(file.fileno()).st_mtime

    def make(self, folder: PurePath, parents: bool = True) -> bool:
        there = os.path.isdir(folder)
        Path(folder).mkdir(parents=parents, exist_ok=True)
        return not there

    def create(self, path: PurePath, data: bytes) -> Held | None:
        try:
            return _HeldFile(_create_file(Path(path), data))
        except FileExistsError:
            return None

    @contextmanager
    def writing(self, path: PurePath, keep: bool = False) -> Iterator[Path]:
        temporary = Path(path.with_name(temporary_name(path.name)))
        try:
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            if not (keep and _link(temporary, Path(path))):
                os.replace(temporary, path)
            sync_directory(Path(path.parent))
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def move(self, staged: dict[PurePath, Path]) -> None:
        for final, file in staged.items():
            os.replace(file, final)

    def remove(self, path: PurePath) -> None:
        remove(Path(path))


@contextmanager
def _folder(root: PurePath, name: str) -> Iterator[int]:
    """Open a folder below `root`, or `root` itself (which may be a link) if the name is empty."""
    at = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for piece in name.split("/") if name else ():
            if piece in ("", ".", ".."):
                raise ValueError(f"{name!r} is not a name below a folder")
            with _regular(name):
                below = os.open(piece, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _regular_file(folder: int, last: str, name: str) -> int:
    """Open a regular file in an open folder; `name` is for messages."""
    if last in ("", ".", "..") or "/" in last:
        raise ValueError(f"{name!r} is not a name below a folder")
    with _regular(name):
        file = os.open(last, _FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ValueError(f"{name} is a link, or not a regular file")
    return file


@contextmanager
def _regular(name: str) -> Iterator[None]:
    """Turn errors for links, and for files in place of folders, into a `ValueError`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise ValueError(f"{name} is a link, or not a regular file") from None
        raise


def _create_file(path: Path, content: bytes) -> int:
    """Create a new file with this content and return its open descriptor."""
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    try:
        os.write(file, content)
        os.fsync(file)
    except BaseException:
        os.close(file)
        path.unlink(missing_ok=True)
        raise
    return file


def _link(temporary: Path, path: Path) -> bool:
    """Move a file to `path` by a hard link unless `path` exists; return False if links are unsupported."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if not path.exists():
            return False
    temporary.unlink()
    return True


def _obstore() -> Any:
    """Import and return obstore, an optional dependency."""
    try:
        import obstore
        import obstore.store
    except ImportError:
        raise StoreError(
            "objects s3://... need obstore: install daskrf[s3] here and wherever workers run"
        ) from None
    return obstore


@functools.lru_cache(maxsize=16)
def _bucket(name: str, environment: tuple[tuple[str, str], ...]) -> object:
    """Return the connection to a bucket, cached per bucket and environment."""
    endpoint = _endpoint(dict(environment))
    # An explicit http:// endpoint means that TLS is not wanted.
    client = {"allow_http": True} if endpoint.startswith("http://") else {}
    return _obstore().store.S3Store(name, client_options=client, retry_config=_RETRIES)


def _endpoint(environment: dict[str, str]) -> str:
    return environment.get("AWS_ENDPOINT_URL") or environment.get("AWS_ENDPOINT") or "https://amazonaws.com"


def _connection(path: PurePath) -> object:
    aws = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
    return _bucket(cast(Url, path).bucket, aws)


def _key(path: PurePath) -> str:
    return cast(Url, path).key


def _prefix(path: PurePath) -> str | None:
    return f"{_key(path)}/" if _key(path) else None


@contextmanager
def _errors(path: PurePath) -> Iterator[None]:
    """Turn errors of obstore inside the block into a `FileNotFoundError` or an `ObjectError`."""
    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise _object_error(path, error) from None
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    except _obstore().exceptions.BaseError as error:
        raise _object_error(path, error) from None


def _object_error(path: PurePath, error: BaseException) -> ObjectError:
    """Return the error for users, derived from the text of obstore's error, which has no other details."""
    text, kinds = str(error), _obstore().exceptions
    refused = (kinds.PermissionDeniedError, kinds.UnauthenticatedError)
    if "NoSuchBucket" in text:
        bucket = cast(Url, path).bucket
        number, what = errno.ENOENT, f"there is no bucket {bucket}; check its name and the endpoint"
    elif "/latest/api/token" in text or "/latest/meta-data" in text:  # where clouds serve credentials
        what = "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY here and for all workers"
        number = errno.EACCES
    elif isinstance(error, refused) or "InvalidAccessKeyId" in text or "SignatureDoesNotMatch" in text:
        number, what = errno.EACCES, "access is denied; check the credentials and their permissions"
    elif isinstance(error, kinds.PreconditionError):
        number, what = errno.ESTALE, "it was replaced while it was in use; run the same command again"
    elif "error sending request" in text:
        place = _endpoint(dict(os.environ))
        number, what = errno.EIO, f"no answer from {place}; check the endpoint and the network"
    else:
        number, what = errno.EIO, text.split("\n", 1)[0][:300]
    return ObjectError(number, what, str(path))


class _HeldObject(Held):
    def __init__(self, path: PurePath, data: bytes, e_tag: str) -> None:
        self._path, self._data, self._e_tag = path, data, e_tag

    def touch(self) -> None:
        mode = {"e_tag": self._e_tag}
        # If another object has replaced it, this object holds nothing any more.
        gone = (_obstore().exceptions.PreconditionError, FileNotFoundError)
        with _errors(self._path), suppress(*gone):
            put = _obstore().put(_connection(self._path), _key(self._path), self._data, mode=mode)
            self._e_tag = put["e_tag"]


class _Objects(Backend):
    """Objects of S3-compatible storage; unfinished files are local, in this user's temporary folder."""

    is_local = False

    def _head(self, path: PurePath) -> dict[str, Any]:
        with _errors(path):
            return cast(dict[str, Any], _obstore().head(_connection(path), _key(path)))

    def size(self, path: PurePath) -> int | None:
        try:
            return int(self._head(path)["size"]) if _key(path) else None
        except FileNotFoundError:
            return None

    def sizes(self, root: PurePath) -> dict[str, int]:
        prefix = _prefix(root) or ""
        with _errors(root):
            pages = _obstore().list(_connection(root), prefix=prefix or None, chunk_size=1000)
            items = [item for page in pages for item in page]
        return {str(item["path"])[len(prefix) :]: int(item["size"]) for item in items}

    def names(self, folder: PurePath) -> list[str]:
        with _errors(folder):
            listing = _obstore().list_with_delimiter(_connection(folder), prefix=_prefix(folder))
        paths = [*listing["common_prefixes"], *(item["path"] for item in listing["objects"])]
        return [posixpath.basename(str(path).rstrip("/")) for path in paths]

    def open(self, path: PurePath, inside: str | None = None) -> io.BufferedReader:
        path = path / (inside or "")
        head = self._head(path)
        return io.BufferedReader(_Reader(path, int(head["size"]), head["e_tag"]), _LEAST_AHEAD)

    def read(self, path: PurePath, inside: str | None = None, most: int | None = None) -> bytes:
        path = path / (inside or "")
        with _errors(path):
            return bytes(_obstore().get(_connection(path), _key(path)).bytes())

    def read_dated(self, folder: PurePath, name: str) -> tuple[bytes, float]:
        return self.read(folder, name), self._head(folder / name)["last_modified"].timestamp()

    def make(self, folder: PurePath, parents: bool = True) -> bool:
        return False

    def _put_new(self, path: PurePath, data: bytes) -> bool:
        """Create an object by a conditional PUT; return False if it exists."""
        with _errors(path):
            try:
                _obstore().put(_connection(path), _key(path), data, mode="create")
            except _obstore().exceptions.AlreadyExistsError:
                return False
        return True

    def create(self, path: PurePath, data: bytes) -> Held | None:
        try:
            if not self._put_new(path, data) and self.read(path) != data:
                return None
        except FileNotFoundError:  # the object just seen, or the bucket, is gone
            return None
        if self._put_new(path, data):
            self.remove(path)
            raise StoreError(
                f"the storage of {path.parent} does not support conditional PUTs (If-None-Match); without "
                "them two runs could undo each other's work, so give another output path"
            )
        return _HeldObject(path, data, self._head(path)["e_tag"])

    @contextmanager
    def writing(self, path: PurePath, keep: bool = False) -> Iterator[Path]:
        temporary = local_name(temporary_name(path.name))
        try:
            yield temporary
            if keep:
                self._put_new(path, temporary.read_bytes())
            else:
                self._upload(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _upload(self, file: Path, path: PurePath) -> None:
        with _errors(path):
            _obstore().put(_connection(path), _key(path), file)

    def move(self, staged: dict[PurePath, Path]) -> None:
        *files, last = pairs(staged)
        _each(lambda pair: self._upload(*pair), files)
        self._upload(*last)

    def remove(self, path: PurePath) -> None:
        keys = [_key(path), *(_key(path / name) for name in self.sizes(path))]
        with _errors(path):
            _obstore().delete(_connection(path), [key for key in keys if key])


_FILES, _OBJECTS = _Files(), _Objects()


def _each(function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
    """Call a function on all arguments concurrently, because each call waits for the storage."""
    arguments = list(arguments)
    if len(arguments) < 2:
        return [function(argument) for argument in arguments]
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        return list(pool.map(function, arguments))


class _Reader(io.RawIOBase):
    """One version of an object, fetched in ranges that grow while it is read sequentially."""

    def __init__(self, path: PurePath, size: int, e_tag: str | None) -> None:
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
        options: dict[str, object] = {"range": (self._position, stop)}
        if self._e_tag:
            options["if_match"] = self._e_tag
        with _errors(self._path):
            response = _obstore().get(_connection(self._path), _key(self._path), options=options)
            self._window, self._start = bytes(response.bytes()), self._position

"""Names of objects with the methods that tests use of paths."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from daskrf.files.backend import Url, _Objects, as_path, backend, exists

OBJECTS = backend(Url("s3://bucket"))
assert isinstance(OBJECTS, _Objects)


class Remote(Url):
    """An object, or what is below a key."""

    def read_bytes(self) -> bytes:
        return OBJECTS.read(self)

    def write_bytes(self, data: bytes) -> None:
        with OBJECTS.writing(self) as temporary:
            temporary.write_bytes(data)

    def open(self, mode: str = "rb") -> io.BufferedReader:
        assert mode == "rb"
        return OBJECTS.open(self)

    def head(self) -> dict[str, Any]:
        return OBJECTS._head(self)  # type: ignore[attr-defined,no-any-return]

    def is_file(self) -> bool:
        return OBJECTS.size(self) is not None

    def exists(self) -> bool:
        return exists(self)

    def unlink(self) -> None:
        assert self.is_file()
        OBJECTS.remove(self)

    def iterdir(self) -> Iterator[Remote]:
        return (self / name for name in OBJECTS.names(self))

    def rglob(self, pattern: str) -> Iterator[Remote]:
        found = (self / name for name in OBJECTS.sizes(self))
        return (path for path in found if path.match(pattern))


def remote(name: Any) -> Any:
    """Return the object of a URL; a local path stays one."""
    found = as_path(name)
    return Remote(*found.parts) if isinstance(found, Url) else found

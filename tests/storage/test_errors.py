"""Errors of the disk keep their number, also on the way from a worker to the driver."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest

from daskrf.errors import DaskrfError, StoreError
from daskrf.files.backend import atomic_write
from daskrf.files.disk import file_errors
from daskrf.storage.integrity import StoredObject
from tests.storage.strategies import full_store


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ENOSPC])
def test_the_number_survives_pickling(number: int) -> None:
    with pytest.raises(StoreError, match="cannot write x: ") as caught, file_errors("write", "x"):
        raise OSError(number, os.strerror(number))
    assert caught.value.errno == number
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.errno) == (StoreError, str(caught.value), number)
    assert isinstance(again, DaskrfError)


def test_other_store_errors_have_none() -> None:
    assert StoreError("damaged").errno is None
    assert pickle.loads(pickle.dumps(StoreError("damaged"))).errno is None


def test_the_number_reaches_the_caller_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = full_store(tmp_path / "s", 1, 20)

    def stale(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with pytest.raises(StoreError) as caught:
        atomic_write(tmp_path / "absent" / "x", b"")
    assert caught.value.errno == errno.ENOENT
    monkeypatch.setattr(StoredObject, "read", stale)
    for read in (store.read_fingerprints, store.read_rows):
        with pytest.raises(StoreError) as caught:
            read(0)
        assert caught.value.errno == errno.ESTALE

"""Read the rows of a library: cleaned molecules, and rejects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

import numpy as np

from daskrf.errors import InputError
from daskrf.molecules.formats import Rows, Segment, View, reader_of, whole
from daskrf.molecules.layout import MAX_LINE_BYTES, molecules
from daskrf.molecules.library import Layout, Library, Reject, RowBatch, Source, clean_smiles
from daskrf.molecules.spool import Spool
from daskrf.storage.backend import as_path, size_of

__all__ = ["first_rows", "read_rows"]


def read_rows(
    library: Library, segments: Sequence[Segment], spool: PurePath | None = None
) -> Iterator[RowBatch]:
    """Yield the rows of ascending segments of one file in batches of at most 10,000.

    Without the folder `spool` a compressed file is decompressed once for all of them.

    Raises
    ------
    InputError
        If the file has another size than when it was scanned, or cannot be read. Other content of the same
        size is not noticed here: the digest would take a pass over the whole file.
    """
    index = segments[0].source
    source = library.sources[index]
    _check_unchanged(source)
    left = sum(segment.n_rows for segment in segments)
    place = Spool(spool, source.sha256) if spool else None
    for rows in _read(as_path(source.path), source.layout, segments, place):
        left -= rows.n_read
        yield _batch(index, library.starts[index], source.layout, rows)
    if left:
        raise _changed(source)


def first_rows(path: PurePath, layout: Layout, n_rows: int) -> RowBatch | None:
    """Return at most `n_rows` rows from the beginning of a file, or None where it has none."""
    rows = next(_read(path, layout, [whole(layout, n_rows)]), None)
    return None if rows is None else _batch(0, 0, layout, rows)


def _read(
    path: PurePath, layout: Layout, segments: Iterable[Segment], spool: Spool | None = None
) -> Iterator[Rows]:
    columns = [layout.smiles, *([] if layout.id is None else [layout.id]), *(at for _, at in layout.extra)]
    return reader_of(layout).read(View(path, layout, columns, molecules()), segments, spool)


def _check_unchanged(source: Source) -> None:
    """Refuse a file of another size than the scanned one."""
    try:
        size = size_of(as_path(source.path))
    except OSError as error:
        raise InputError(
            f"{source.path} cannot be read ({error.strerror}); it was there at the scan.", errno=error.errno
        ) from None
    if size != source.bytes:
        raise _changed(source)


def _changed(source: Source) -> InputError:
    return InputError(f"{source.path} has changed since it was scanned; restore it or start a new store.")


def _batch(source: int, start: int, layout: Layout, rows: Rows) -> RowBatch:
    """Return rows of a file that begins at row `start` of the library; those without SMILES are rejects.

    A missing ID becomes row-<n>.
    """
    rejects = [Reject(start + row, source, line, text, reason) for row, line, text, reason in rows.faults]
    row, line, (given, *columns) = start + rows.row, rows.line, rows.columns
    texts = [text or "" for text in given]
    smiles = _cleaned(texts)
    if not all(smiles) or max(map(len, texts), default=0) > MAX_LINE_BYTES:
        kept = []
        for k, (text, raw) in enumerate(zip(smiles, texts, strict=True)):
            long = len(raw) > MAX_LINE_BYTES
            if text and not long:
                kept.append(k)
                continue
            reason = f"longer than {MAX_LINE_BYTES:,} bytes" if long else "no SMILES"
            rejects.append(Reject(int(row[k]), source, int(line[k]), rows.text(k), reason))
        rejects.sort(key=lambda reject: reject.row)
        row, line = row[kept], line[kept]
        smiles, columns = [smiles[k] for k in kept], [[column[k] for k in kept] for column in columns]
    ids = [(name or "").strip() for name in columns.pop(0)] if layout.id is not None else [""] * len(smiles)
    if not all(ids):
        ids = [name or f"row-{number}" for name, number in zip(ids, row.tolist(), strict=True)]
    extra = dict(zip((key for key, _ in layout.extra), columns, strict=True))
    return RowBatch(row, line, np.full(len(row), source, dtype=np.int32), ids, smiles, extra, rejects)


def _cleaned(texts: list[str]) -> list[str]:
    """Return texts as `clean_smiles` does."""
    every = "\n".join(texts)
    return [clean_smiles(text) for text in texts] if " " in every or "\t" in every else texts

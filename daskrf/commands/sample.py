"""Space -> random products, to score for a first model."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.errors import InputError, OptionError
from daskrf.files.backend import as_path
from daskrf.molecules import FingerprintSpec
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.lines import report_text
from daskrf.report.notebook import Shown
from daskrf.screens.space.cutspaces import cut_anew, left_out, no_products, without_differing
from daskrf.screens.space.hits import product_columns
from daskrf.seeds import check_seed
from daskrf.spaces import CutSpace, read_space
from daskrf.spaces.families import decoded, starts_of
from daskrf.spaces.limits import Range, ranges_of, ranges_of_texts
from daskrf.spaces.sampling import inside, random_numbers
from daskrf.storage.hits import write_hits
from daskrf.storage.outputs import guarded, refuse_others
from daskrf.storage.tablefiles import check_ending
from daskrf.workers.progress import Progress

By = Literal["products", "reactions"]

CLI = Command(
    "daskrf sample real_space/ -n 1000 -o first.csv",
    step=10,
    options={
        "n": Option(least=1),
        "seed": Option(least=0),
        "within": Option(metavar="NAME=LOW:HIGH", repeated=True, convert=ranges_of_texts),
    },
)

_AT_ONCE = 4096  # products whose SMILES are made at a time
_GROWTH = 4  # times as many are drawn where too few are different molecules


@dataclass(frozen=True)
class SampleReport(Shown):
    """What `sample` drew.

    Attributes
    ----------
    output : Path
    table : pyarrow.Table
        The same as in the file.
    products : int
        Number of products of the space; one that can be made in several ways counts for each.
    seconds : float
    notes : tuple of str
        What was left out, and how many molecules each reaction gave.
    """

    output: PurePath
    table: pa.Table = field(repr=False)
    products: int
    seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f"{amount(self.table.num_rows, 'random molecules')} of {amount(self.products, 'products')}"
        return report_text(f"{what} in {self.output} ({self.seconds:.1f} s)", notes=self.notes)


def sample(
    space: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    n: int = 1000,
    by: By = "products",
    within: Mapping[str, Sequence[float | None]] | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> SampleReport:
    """Draw random products of a make-on-demand space.

    For the first round: score the molecules, fit a model to them, and screen the space with it. The molecules
    are all different and in random order, with the columns id, smiles, reaction and block_0, block_1 and so
    on, and heavy_atoms, weight, donors, rings and polar_surface.

    Parameters
    ----------
    space : path
        As in `check_space`.
    output : path
        File of the molecules; its ending chooses the format, as in `screen`.
    n : int
        Number of molecules.
    by : {"products", "reactions"}
        With products, all products are equally likely, so most come from the largest reactions; with
        reactions, each reaction gives the same number of products, if it has that many.
    within : dict of str to (float or None, float or None), optional
        Lower and upper limit of heavy_atoms, weight, donors (of hydrogen bonds), rings or polar_surface.
    seed : int
        Seed of the draw. A smaller sample with the same seed is the beginning of a larger one.
    overwrite : bool
        Replace a file at the output.
    progress : Progress, optional
        As in `fingerprint`.

    Returns
    -------
    SampleReport

    Raises
    ------
    InputError
        If the space cannot be read, or has no products within the limits.
    StoreError
        If there is a file at the output.
    """
    start, output, progress = time.monotonic(), as_path(output), progress or Progress()
    ranges = _checked(n, by, within, seed, output, overwrite=overwrite)
    read = read_space(space)
    with tempfile.TemporaryDirectory(prefix="daskrf-") as folder:
        whole = cut_anew(read, FingerprintSpec("morgan"), Path(folder), read.digest, progress)
    cut, refused = without_differing(whole, progress)
    if not any(cut.sizes):
        raise no_products(read, refused)
    row, smiles = _distinct(cut, n, by, ranges, seed)
    if not len(row):
        raise InputError(f"None of the products drawn from {space} lies within the limits; widen them.")
    products = decoded(cut, row.tolist())
    table = pa.table(product_columns(cut, products, smiles))
    notes = [*_counts(table), *left_out(cut)]
    if len(row) < n:
        notes.append(f"the space gave no more than {amount(len(row), 'different molecules')}")
    about = {
        "made": f"{amount(len(row), 'random molecules')} of {sum(cut.sizes):,} products, seed {seed}",
        "source_kind": "space",
        "source": as_path(space).name,
        "library": read.digest,
        "notes": notes,
    }
    write_hits(table, output, about, kind="sample", before=guarded(output, overwrite=overwrite))
    return SampleReport(output, table, sum(cut.sizes), time.monotonic() - start, tuple(notes))


def _checked(
    n: int, by: str, within: Any, seed: int, output: PurePath, *, overwrite: bool
) -> tuple[Range, ...]:
    """Refuse impossible options; return the limits."""
    if n < 1:
        raise OptionError(f"The number of molecules must be at least 1, not {n}.")
    if by not in get_args(By):
        raise OptionError(f"by is one of {', '.join(get_args(By))}, not {by!r}.")
    check_seed(seed)
    check_ending(output)
    refuse_others(output, overwrite=overwrite)
    return ranges_of(within)


def _distinct(
    cut: CutSpace, n: int, by: str, ranges: Sequence[Range], seed: int
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return numbers and SMILES of random products that are different molecules."""
    drawn, total = n, sum(cut.sizes)
    while True:
        candidates = _drawn(cut, drawn, by, ranges, seed)
        distinct: dict[str, int] = {}
        for number, smiles in _made(cut, candidates):
            distinct.setdefault(smiles, number)
            if len(distinct) == n:
                break
        if len(distinct) == n or drawn >= total:
            return np.array(list(distinct.values()), np.int64), list(distinct)
        drawn *= _GROWTH


def _drawn(cut: CutSpace, n: int, by: str, ranges: Sequence[Range], seed: int) -> npt.NDArray[np.int64]:
    """Return random numbers of products, `n` of all or `n` of each reaction, by turns."""
    starts = starts_of(cut)
    if by == "products":
        return _stream(cut, (0, starts[-1]), n, ranges, seed, "space/sample")
    streams = [
        _stream(cut, (starts[r], size), n, ranges, seed, f"space/sample/{cut.space.reactions[r].name}")
        for r, size in enumerate(cut.sizes)
        if size
    ]
    turn = np.concatenate([np.arange(len(stream)) for stream in streams])
    return np.concatenate(streams)[np.argsort(turn, kind="stable")]


def _stream(
    cut: CutSpace, numbered: tuple[int, int], n: int, ranges: Sequence[Range], seed: int, name: str
) -> npt.NDArray[np.int64]:
    """Return random numbers of products within a range: its first number, and how many it has."""
    first, size = numbered

    def wanted(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return inside(cut, first + numbers, ranges)

    return first + random_numbers(size, n, seed, name, wanted)


def _made(cut: CutSpace, numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, str]]:
    """Yield number and SMILES of products."""
    for start in range(0, len(numbers), _AT_ONCE):
        block = numbers[start : start + _AT_ONCE].tolist()
        products = decoded(cut, block)
        smiles = [""] * len(products)
        for slots in {len(p.synthons) for p in products}:
            at = [i for i, p in enumerate(products) if len(p.synthons) == slots]
            made = cut.product_smiles(np.array([products[i].synthons for i in at]))
            for i, one in zip(at, made, strict=True):
                smiles[i] = one
        yield from zip(block, smiles, strict=True)


def _counts(table: pa.Table) -> list[str]:
    """Return how many molecules are of each reaction."""
    counted = table["reaction"].value_counts().to_pylist()
    counted.sort(key=lambda one: -one["counts"])
    counts = ", ".join(f"{one['counts']:,} of {one['values']}" for one in counted[:20])
    return [f"by reaction: {counts}" + (", ..." if len(counted) > 20 else "")]

"""Space -> the products most similar to a molecule, or random ones that contain a pattern."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import pyarrow as pa
from distributed import Client

from daskrf.errors import OptionError
from daskrf.files.backend import as_path
from daskrf.jobs.job import run
from daskrf.molecules import FingerprintSpec
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.lines import report_text
from daskrf.report.notebook import Shown
from daskrf.screens.space.productsearch import ProductSearchJob, SearchRequest
from daskrf.seeds import check_seed
from daskrf.spaces.limits import ranges_of, ranges_of_texts
from daskrf.spaces.patterns import read_pattern
from daskrf.spaces.synthons import check_spec
from daskrf.storage.tablefiles import check_ending
from daskrf.workers.progress import Progress

CLI = Command(
    "daskrf search real_space/ -o similar.csv --similar-to 'CC(=O)Nc1ccc(O)cc1' -k 100",
    step=10,
    options={
        "similar_to": Option(metavar="SMILES", repeated=True),
        "smarts": Option(metavar="SMARTS", repeated=True),
        "without_smarts": Option(metavar="SMARTS", repeated=True),
        "k": Option(least=1),
        "seed": Option(least=0),
        "within": Option(metavar="NAME=LOW:HIGH", repeated=True, convert=ranges_of_texts),
        "per_block": Option(least=1),
    },
    resumable=True,
    shards=True,
)


@dataclass(frozen=True)
class SearchReport(Shown):
    """What `search` found.

    Attributes
    ----------
    output : Path
    table : pyarrow.Table
        The same as in the file.
    queries : tuple of str
        The molecules that products were compared with; none if the products are random ones.
    products : int
        Number of products of the space; one that can be made in several ways counts for each.
    seconds : float
    notes : tuple of str
        How products were compared, and what was left out.
    """

    output: PurePath
    table: pa.Table = field(repr=False)
    queries: tuple[str, ...]
    products: int
    seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f"{amount(self.table.num_rows, 'products')} in {self.output} ({self.seconds:.1f} s)"
        return report_text(what, [self._line(query) for query in self.queries], notes=self.notes)

    def _line(self, query: str) -> str:
        """Return how similar the products are to one molecule."""
        values = [
            value
            for value, of in zip(
                self.table["similarity"].to_pylist(), self.table["query"].to_pylist(), strict=True
            )
            if of == query
        ]
        if not values:
            return f"{query}: no product"
        return (
            f"{query}: {amount(len(values), 'products')}, similarity {max(values):.3f} to {min(values):.3f}"
        )


def search(
    space: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    similar_to: str | Sequence[str] = (),
    smarts: str | Sequence[str] = (),
    without_smarts: str | Sequence[str] = (),
    k: int = 100,
    spec: FingerprintSpec | None = None,
    within: Mapping[str, Sequence[float | None]] | None = None,
    per_block: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
) -> SearchReport:
    """Find the products of a make-on-demand space by similarity or by patterns.

    With similar_to, lists the products most similar to a molecule, by the Tanimoto similarity of counts: the
    sum of minima over the sum of maxima. The search is exact: no product that is not listed is more similar
    than the last one. With smarts or without_smarts, only products that contain some patterns, or do not; the
    report says how many these are. Without similar_to, random ones of them are listed. Products are not made
    but for those listed: counts are sums over synthons, and patterns are put together from their pieces. The
    products are different molecules, with the columns query, rank and similarity if there is a molecule to
    compare with, row (the number of the product), id, smiles, reaction and block_0, block_1 and so on, and
    heavy_atoms, weight, donors, rings and polar_surface.

    Parameters
    ----------
    space : path
        As in `check_space`.
    output : path
        File of the products; its ending chooses the format, as in `screen`.
    similar_to : str, or sequence of str
        SMILES of the molecule to compare with, or of several, each with its own k products.
    smarts : str, or sequence of str
        Patterns that each product must contain. They may lie across the new bonds. Recursive patterns $( ),
        ^ and z are refused, since they look beyond an atom and its bonds.
    without_smarts : str, or sequence of str
        Patterns that no product may contain, of the same kind.
    k : int
        Number of products, for each molecule to compare with.
    spec : FingerprintSpec, optional
        Fingerprints to compare: Morgan counts of radius 0, 1 or 2. Default: radius 2.
    within : dict of str to (float or None, float or None), optional
        As in `sample`: only products within these limits are listed.
    per_block : int, optional
        At most this many products for a molecule have the same block, in whatever slot.
    seed : int
        Seed of the draw, without similar_to.
    overwrite : bool
        Replace a file at the output.
    client, progress
        As in `fingerprint`.

    Returns
    -------
    SearchReport

    Raises
    ------
    InputError
        If the space cannot be read, has no such products, or a SMILES or SMARTS cannot be used.
    StoreError
        If there is a file at the output.
    """
    spec = spec or FingerprintSpec("morgan:2")
    check_spec(spec)
    smiles, wanted, unwanted = map(_texts, (similar_to, smarts, without_smarts))
    if not (smiles or wanted or unwanted):
        raise OptionError("Give a molecule to compare with (--similar-to), or a pattern (--smarts).")
    for pattern in (*wanted, *unwanted):
        read_pattern(pattern)
    check_seed(seed)
    if k < 1:
        raise OptionError(f"The number of products must be at least 1, not {k}.")
    if per_block is not None and per_block < 1:
        raise OptionError(f"per_block must be at least 1, not {per_block}.")
    check_ending(as_path(output))
    request = SearchRequest(
        as_path(space),
        as_path(output),
        smiles,
        k,
        spec,
        limits=ranges_of(within),
        per_block=per_block,
        overwrite=overwrite,
        smarts=wanted,
        without_smarts=unwanted,
        seed=seed,
    )
    return run(ProductSearchJob(request, SearchReport), client, progress)


def _texts(texts: str | Sequence[str]) -> tuple[str, ...]:
    """Return one text or several as a tuple, each once."""
    return tuple(dict.fromkeys([texts] if isinstance(texts, str) else texts))

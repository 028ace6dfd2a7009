"""The job of screening a space: the best k of all products, which are never listed."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.acquisition import Acquisition
from daskrf.blas import ONE_BLAS_THREAD
from daskrf.errors import InputError, OptionError
from daskrf.features.fourier import FourierFeatures
from daskrf.gp.process import RandomFeatureGP
from daskrf.gp.separate import process_of
from daskrf.jobs.cutspaces import cut_once, families_once
from daskrf.jobs.directions import maximizes, target_of
from daskrf.jobs.duplicates import duplicates
from daskrf.jobs.job import Job, Need, Run
from daskrf.jobs.mapreference import MapReference
from daskrf.jobs.memory import need_of_products
from daskrf.jobs.models import Model, feature_map_of, read_model
from daskrf.jobs.pieces import Done, Pieces, group_by_rows
from daskrf.jobs.spacesearch import Ranked, SpacePieces, SpaceSearch
from daskrf.jobs.tree import Root, Tree
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.quantities import amount
from daskrf.screening import TopK
from daskrf.spaces import CutSpace, Space, compare, read_space
from daskrf.spaces.families import Family, Product, decoded, identifiers
from daskrf.spaces.limits import SUMS, Range
from daskrf.spaces.ranking import pieces_of
from daskrf.spaces.synthons import check_spec
from daskrf.storage.backend import absolute
from daskrf.storage.files import work_folder
from daskrf.storage.hits import Earlier, earlier_hits, write_hits
from daskrf.storage.model import read_checkpoint, write_checkpoint
from daskrf.storage.store import hash_of

__all__ = ["SpaceScreen"]

_PIECES = "blocks of products"
_SHORTLIST = 10  # times k products with the best means get a standard deviation, where a rule needs it
MORE = 4  # times k products are kept, since some are the same molecule
_GROWTH = 4  # if too few, so many times as many
_TRIES = 4
_TIES = "very many are the same molecule, equally good, or of the same blocks: others may belong to the hits"
COMPARED = 50  # random combinations of blocks of each reaction
_CLOSE = 1e-3  # of the signal's deviation: means of the search, in single precision, agree better by far
_VERSION = 1
_FRACTIONAL = ("weight", "polar_surface")


@dataclass
class SpaceScreen(Job[Any]):
    """The job; see `daskrf.jobs.job.Job`. `plan` sets the fields from `model` on.

    Attributes
    ----------
    path, source, output : Path
        Of the model, the space and the hits.
    k, std, seed, rule, maximize, asked, overwrite
        As in `screen`.
    limits : tuple of Range
        What products must lie in.
    per_block : int or None
        At most so many hits have the same block.
    made : callable
        Makes the report.
    """

    path: PurePath
    source: PurePath
    output: PurePath
    k: int
    std: str
    seed: int
    rule: Acquisition
    maximize: bool | None
    asked: str | int | None
    overwrite: bool
    made: Callable[..., Any]
    limits: tuple[Range, ...] = ()
    per_block: int | None = None
    model: Model = field(init=False)
    space: Space = field(init=False)
    cut: CutSpace = field(init=False)
    families: list[Family] = field(init=False)
    target: int = 0
    notes: tuple[str, ...] = ()
    earlier: Earlier | None = None
    tree: Tree = field(init=False)

    name = "screen"

    @property
    def locked(self) -> PurePath:
        """The output is a file."""
        return work_folder(self.output)

    def plan(self, run: Run) -> None:
        """Cut the space, unless the output holds these hits already."""
        if self.std == "all":
            raise OptionError(
                "Standard deviations of all products of a space would take too long; leave out --std all: "
                "the products with the best means get them."
            )
        self.model = read_model(self.path, statistics=self.std != "none" or self.rule.needs_sample)
        self.target = target_of(self.model, self.asked)
        spec = _spec_of(self.model, self.target)
        up, self.notes = maximizes(self.model, self.target, self.maximize)
        best = float((max if up else min)(self.model.metadata["range"][self.target]))
        self.rule = replace(self.rule, maximize=up).with_best(best)
        earlier = earlier_hits(self.output)
        self.space = read_space(self.source)
        if earlier is not None and not self.overwrite:
            earlier.refuse_other(self.spec, self.source.name)
        if earlier is not None and earlier.is_of(self.spec):
            self.earlier = None if self.overwrite and earlier.is_damaged() else earlier
        if self.earlier is None:
            self._cut(run, spec)

    def _cut(self, run: Run, spec: FingerprintSpec) -> None:
        """Cut the space, and leave out reactions whose products do not compose."""
        key, refused = self._key(spec), list[str]()
        found = cut_once(self.space, spec, run.work, key, run.progress)

        def check(found: CutSpace) -> CutSpace:
            run.progress.start("compare", len(found.entries), "reactions")
            kept = []
            for r, own in enumerate(found.entries):
                difference = compare(found, r, COMPARED).difference if found.sizes[r] else ""
                kept.append([] if difference else own)
                if difference:
                    refused.append(f"{self.space.reactions[r].name} ({difference})")
                run.progress.advance(1)
            run.progress.finish()
            return dataclasses.replace(found, entries=kept)

        self.cut, self.families = families_once(found, run.work, key, check)
        if not self.families:
            reasons = [reaction.refusal for reaction in self.space.reactions if reaction.refusal]
            why = refused[0] if refused else reasons[0] if reasons else "no block matches its slot"
            raise InputError(f"{self.source} has no products: {why}. See `daskrf check-space {self.source}`.")
        self.notes = (*self.notes, *self._left_out())

    def _key(self, spec: FingerprintSpec) -> str:
        """Return the hash of what the tables of the space depend on."""
        return hash_of({"space": self.space.digest, "fingerprint": spec.state(), "version": _VERSION})

    def _left_out(self) -> list[str]:
        """Return notes on reactions and blocks that have no products."""
        notes = []
        out = [r.name for r, size in zip(self.space.reactions, self.cut.sizes, strict=True) if not size]
        if out:
            names = ", ".join(out[:5]) + ", ..." * (len(out) > 5)
            notes.append(
                f"left out: {amount(len(out), 'reactions')} ({names}); `daskrf check-space` says why"
            )
        blocks = sum(len(ids) for slots in self.cut.entries for own in slots for ids in own.refused.values())
        if blocks:
            notes.append(
                f"left out: {amount(blocks, 'blocks')} without a synthon in their slot; `daskrf check-space` "
                "says why"
            )
        return notes

    @property
    def spec(self) -> dict[str, Any]:
        """What the hits depend on, as shards must agree on it."""
        return {
            "model": self.model.metadata["spec_hash"],
            "acquisition": self.rule.state(),
            "k": self.k,
            "std": self.std,
            "target": self.model.targets[self.target],
            "seed": self.seed if self.rule.needs_sample else None,
            "within": " ".join(f"{SUMS[i]}={_bound(low)}:{_bound(high)}" for i, low, high in self.limits)
            or None,
            "per_block": self.per_block,
            "library": self.space.digest,
        }

    def need(self) -> Need:
        if self.earlier is not None:
            return Need()
        n_components = feature_map_of(self.model).n_components
        pieces = pieces_of(self.families, n_components)
        rows = max(sum(stop - start for start, stop in piece.bounds) for piece in pieces)
        tables = self.cut.own.data.nbytes + self.cut.own.indices.nbytes
        tables += sum(s.counts.data.nbytes + s.counts.indices.nbytes for f in self.families for s in f.sides)
        return Need(need_of_products(rows, n_components, tables, self.n_kept))

    @property
    def n_kept(self) -> int:
        """How many products are kept until all have been scored."""
        return self.k * (_SHORTLIST if self.rule.needs_std else MORE)

    def pieces(self, run: Run) -> list[Pieces]:
        if self.earlier is not None:
            return [Done(1, _PIECES)]
        run.agree(self.spec)
        self.tree = self._tree(run, self.n_kept)
        return [self.tree]

    def _tree(self, run: Run, n_kept: int) -> Tree:
        """Return the search for the best `n_kept` products."""
        feature_map = feature_map_of(self.model)
        tables = absolute(run.work), self._key(self.cut.spec), self.cut.spec.n_columns
        reference = MapReference.of(feature_map.state()).carried(run.work)
        search = SpaceSearch(tables, self._leave_weights(run), reference, n_kept, self.limits)
        pieces = pieces_of(self.families, feature_map.n_components)
        most = max(piece.size for piece in pieces)
        groups = group_by_rows([(i, piece.size) for i, piece in enumerate(pieces)], most)
        sizes = [sum(pieces[i].size for i in group) for group in groups]
        chunk = SpacePieces(tables, feature_map.n_components).of
        root = Root(search, chunk, run.work / f"partials-{n_kept}", hash_of([self.spec, n_kept]))
        return Tree([root], groups, sizes, _PIECES)

    def _leave_weights(self, run: Run) -> str:
        """Write the weights that rank to a file that every task finds; return the file."""
        path = run.work / f"weights-{hash_of(self.spec)[:16]}"
        if read_checkpoint(path, path.name) is None:
            write_checkpoint(path, {"weights": self.rule.sign * self._weights()}, {}, path.name, keep=True)
        return absolute(path)

    def _weights(self) -> npt.NDArray[np.float64]:
        """Return the weights of the mean, or of the draw that ranks."""
        gp, own = self.process
        if not self.rule.needs_sample:
            return gp.weights_[:, own]
        with ONE_BLAS_THREAD:  # the same on any number of processors
            return gp.weights_of_draw(self.seed, own)[:, 0]

    @property
    def process(self) -> tuple[RandomFeatureGP, int]:
        """The process that ranks, and the index of the target in it."""
        gp, own = process_of(self.model.gp, self.target)
        assert isinstance(gp, RandomFeatureGP)
        return gp, own

    def finish(self, run: Run, made: int) -> Any:
        """Write the hits and what is known of them."""
        if self.earlier is not None:
            about, there = self.earlier.about, f"{self.output} already holds exactly these hits"
            return self._report(self.earlier.table, about, (*about["notes"], there), run.seconds)
        n_kept = self.n_kept
        for attempt in range(_TRIES):
            if attempt:
                n_kept *= _GROWTH
                self.tree = self._tree(run, n_kept)
                self.tree.make(client=run.client, progress=run.progress)
            found: Ranked = self.tree.result()
            hits = _Hits.of(self, found.top, whole=len(found.top) < n_kept)
            if hits.enough(self.k):
                break
        else:
            self.notes = (*self.notes, f"only the best {len(found.top):,} products were compared, as {_TIES}")
        table, notes = hits.best(self.k)
        labelled = duplicates(table["smiles"], self.model, self.path, None, labelled=True)
        notes = (*self.notes, *notes, labelled)
        about = {
            **self.spec,
            "direction": "maximize" if self.rule.maximize else "minimize",
            "model_name": self.path.name,
            "source": self.source.name,
            "rows": sum(family.size for family in self.families),
            "rejected": 0,
            "notes": list(notes),
        }
        write_hits(table, self.output, about)
        return self._report(table, about, notes, run.seconds)

    def _report(self, table: pa.Table, about: dict[str, Any], notes: Sequence[str], seconds: float) -> Any:
        direction = about["direction"]
        return self.made(
            *(self.output, table, about["rows"], 0, None, about["acquisition"]["rule"], seconds),
            *(about["target"], direction, tuple(notes)),
        )


def _bound(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else ""


def _spec_of(model: Model, target: int) -> FingerprintSpec:
    """Return the fingerprints of a model that can rank a space.

    Raises
    ------
    InputError
        If it cannot: the sentence says what to fit instead.
    """
    gp, _ = process_of(model.gp, target)
    how = "fit with --map fourier --kernel gaussian --length-scale 25 to fingerprints of --kind morgan:2, say"
    if not isinstance(gp, RandomFeatureGP) or not isinstance(feature_map_of(model), FourierFeatures):
        of = model.metadata["map"]
        what = "an exact process" if of is None else f"on {of['class']}"
        raise InputError(
            f"A space can be screened only with a model on Fourier features, and this one is {what}; {how}."
        )
    spec = FingerprintSpec.from_state(model.metadata["fingerprint"])
    try:
        check_spec(spec)
    except InputError as error:
        raise InputError(f"The model cannot rank a space. {error}") from None
    return spec


@dataclass(frozen=True)
class _Hits:
    """Candidates of a search: distinct molecules, best first.

    Attributes
    ----------
    job : SpaceScreen
    products : list of Product
        No more of a block than are asked for.
    columns : dict of arrays
        By column of the table.
    repeats : int
        Products that are the same molecule as a better one.
    bar : float
        The score of products that were not kept is at most this.
    whole : bool
        Whether all products have been kept.
    """

    job: SpaceScreen
    products: list[Product]
    columns: dict[str, Any]
    repeats: int
    bar: float
    whole: bool

    @classmethod
    def of(cls, job: SpaceScreen, top: TopK, *, whole: bool) -> _Hits:
        """Predict the products that a search has kept, from their SMILES."""
        cut, rule = job.cut, job.rule
        products = decoded(cut, top.row.tolist())
        smiles = _smiles(cut, products)
        features, place = _features(job, smiles)
        gp, own = job.process
        with ONE_BLAS_THREAD:  # as tasks do: hits have the same bytes on any number of processors
            value = gp.predict(features, target=own)
            if rule.needs_sample:
                value = gp.drawn(job._weights()[:, None], job.seed, own).predict(features)
            columns: dict[str, Any] = {}
            if rule.needs_std:
                columns = _predicted(job, features)
            score = rule(value, columns.get("std"))[place]
        error = 0.0
        searched = top.score + rule.sign * float(gp.mean_[own])
        if len(top):
            error = float(np.abs(searched - rule.sign * value[place]).max())
            deviation = math.sqrt(float(gp.signal_variance_[own]))
            if not error <= _CLOSE * deviation:
                raise InputError(
                    f"Means of products differ by {error:.2g} from those of their SMILES, so that their "
                    f"fingerprints do not compose; find the reaction by `daskrf check-space {job.source} "
                    "--sample 5000`, and leave it out."
                )
        order = np.lexsort((top.row, -score))
        first = np.sort(np.unique(np.array(smiles, object)[order], return_index=True)[1])
        kept = order[first]
        n_distinct, capped = len(kept), _capped([products[i].blocks for i in kept], job.per_block)
        kept = kept[capped]
        columns = {name: values[place][kept] for name, values in columns.items()}
        columns |= {"row": top.row[kept], "smiles": [smiles[i] for i in kept], "acquisition": score[kept]}
        bar = float(searched.min()) + 2 * error if len(top) else -math.inf
        return cls(job, [products[i] for i in kept], columns, len(top) - n_distinct, bar, whole)

    def enough(self, k: int) -> bool:
        """Return whether the best k are among them: all have been kept, or those that were not are worse."""
        if self.whole:
            return True
        if len(self.products) < k:
            return False
        return self.job.rule.needs_std or float(self.columns["acquisition"][k - 1]) > self.bar

    def best(self, k: int) -> tuple[pa.Table, tuple[str, ...]]:
        """Return the table of the best k, and notes."""
        job, products = self.job, self.products[:k]
        columns = {name: values[:k] for name, values in self.columns.items()}
        if "mean" not in columns and len(products):
            features, place = _features(job, columns["smiles"])
            with ONE_BLAS_THREAD:
                found = _predicted(job, features, std=job.std != "none")
            columns |= {name: values[place] for name, values in found.items()}
        names, space = [reaction.name for reaction in job.space.reactions], job.space
        table: dict[str, Any] = {
            "rank": pa.array(np.arange(1, len(products) + 1)),
            "row": columns["row"],
            "id": pa.array(identifiers(job.cut, products), pa.string()),
            "smiles": pa.array(columns["smiles"], pa.string()),
            "reaction": pa.array([names[p.reaction] for p in products], pa.string()),
        }
        for slot in range(max((len(own) for own in job.cut.entries), default=2)):
            blocks = [space.blocks[p.blocks[slot]] if slot < len(p.blocks) else None for p in products]
            table[f"block_{slot}"] = pa.array(blocks, pa.string())
        sums = np.array([job.cut.sums[list(p.synthons)].sum(axis=0) for p in products])
        for name, values in zip(SUMS, sums.reshape(-1, len(SUMS)).T, strict=True):
            table[name] = values.round(3) if name in _FRACTIONAL else values.astype(np.int64)
        for name in ("mean", "std", "std_y", "acquisition"):
            if name in columns or not products:
                table[name] = np.asarray(columns.get(name, np.empty(0)), np.float64)
        sizes = job.cut.sizes
        notes = [
            f"{amount(sum(sizes), 'products')} of {amount(sum(map(bool, sizes)), 'reactions')}, if each way "
            "to make them counts; those of equal synthons were scored once"
        ]
        if self.repeats:
            notes.append(
                f"left out: {amount(self.repeats, 'products')} that are the same molecule as a better one"
            )
        if len(products) < k and self.whole:
            notes.append(f"these are all: {amount(len(products), 'molecules')}")
        if job.rule.needs_std:
            notes.append(f"ranked among the {job.n_kept:,} best means")
        return pa.table(table), tuple(notes)


def _capped(blocks: Sequence[tuple[int, ...]], most: int | None) -> list[int]:
    """Return which products to take, in order, so that no block is in more than `most` of them.

    Examples
    --------
    >>> _capped([(0, 7), (0, 8), (1, 7), (1, 9)], 1)
    [0, 3]
    """
    if most is None:
        return list(range(len(blocks)))
    seen, taken = Counter[int](), []
    for i, own in enumerate(blocks):
        if all(seen[block] < most for block in own):
            seen.update(set(own))
            taken.append(i)
    return taken


def _predicted(job: SpaceScreen, features: Any, *, std: bool = True) -> dict[str, npt.NDArray[np.float64]]:
    """Return mean and standard deviations of f and of y."""
    gp, own = job.process
    if not std:
        return {"mean": gp.predict(features, target=own)}
    found = gp.predict(features, return_std=True, of="both", target=own)
    return dict(zip(("mean", "std", "std_y"), found, strict=True))


def _smiles(cut: CutSpace, products: Sequence[Product]) -> list[str]:
    """Return the canonical SMILES of products."""
    found = [""] * len(products)
    for n_slots in {len(p.synthons) for p in products}:
        at = [i for i, p in enumerate(products) if len(p.synthons) == n_slots]
        made = cut.product_smiles(np.array([products[i].synthons for i in at]))
        for i, smiles in zip(at, made, strict=True):
            found[i] = smiles
    return found


def _features(job: SpaceScreen, smiles: Sequence[str]) -> tuple[Any, npt.NDArray[np.intp]]:
    """Return the features of distinct fingerprints, and which of them each molecule has.

    Equal fingerprints, as of stereoisomers, get exactly equal means.
    """
    counted = Fingerprinter(job.cut.spec)(smiles)
    if counted.rejects:
        bad, reason = counted.rejects[0]
        raise InputError(f"The product {smiles[bad]} has no fingerprint: {reason}.")
    rows = counted.fingerprints
    known: dict[bytes, int] = {}
    texts = (
        rows.indices[start:stop].tobytes() + b"|" + rows.data[start:stop].tobytes()
        for start, stop in itertools.pairwise(rows.indptr.tolist())
    )
    place = np.array([known.setdefault(text, len(known)) for text in texts], np.intp)
    first = np.unique(place, return_index=True)[1]
    return feature_map_of(job.model).transform(rows[first]), place

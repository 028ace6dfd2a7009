"""Score products of a space by a model: join synthons to SMILES, then compute fingerprints and scores.

The synthons of the products are in one file; a task takes a range of them, and its result is a checkpoint.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from daskrf.acquisition import Acquisition
from daskrf.arrays import NamedArrays
from daskrf.errors import InputError
from daskrf.files.backend import absolute
from daskrf.gp.processes.weightedsum import Target
from daskrf.jobs.job import Run
from daskrf.jobs.tree import Reduction, Root, Tree
from daskrf.models.models import Model, feature_map_of, open_model, predictions_of, score_seconds
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.fingerprints import MANY
from daskrf.molecules.isolation import Lost, each
from daskrf.molecules.structures import KnownStructures
from daskrf.screens.draws import drawn_function, drawn_values
from daskrf.screens.space.stdbounds import BOUND_SECONDS, std_bounds
from daskrf.sources.sources import feature_blocks
from daskrf.spaces import CutSpace
from daskrf.spaces.joinedtexts import joined_text
from daskrf.spaces.sampling import by_reaction
from daskrf.storage.model import made_once, needed_checkpoint
from daskrf.storage.stores.store import hash_of
from daskrf.workers.calls import check_stop

MOST_ROWS = 2**14  # products of a task
_LEAST_ROWS = 1024
_TASK_SECONDS = 20.0
_LEAST_TASKS = 32
_VERSION = 3  # of the checkpoints of scores
_JOIN_SECONDS = 7e-4  # per product, for its SMILES and its fingerprint by RDKit
_MANY = 40_000  # products of a job: RDKit would take longer to count these than the engine to start
_UNREADABLE = "?"  # the engine leaves it to RDKit
_DUMMY = re.compile(r"\[\d+\*\]")
NUMBERS = ("score", "value", "mean", "std", "std_y", "probability")
"""Columns of numbers that a model predicts."""
STEP = "step"
"""Column that says how tight a bound is, where scores may be bounds."""


@dataclass
class Scored:
    """Products and their scores by the model, in the same order: a monoid.

    Attributes
    ----------
    smiles : list of str
        Canonical; or those of the synthons, with spaces between, until `named` replaces them.
    columns : dict of arrays
        "score" by the rule, larger is better; "value", the mean or the posterior sample that it ranks by;
        "mean"; if requested, "std" of the function and "std_y" of a measurement; "key", equal for equal
        fingerprints.
    """

    smiles: list[str] = field(default_factory=list)
    columns: NamedArrays = field(default_factory=dict)

    @classmethod
    def of_none(cls) -> Scored:
        """Return the scores of no products."""
        return cls([], {name: np.empty(0) for name in ("score", "value", "mean")})

    def __iadd__(self, other: Scored) -> Scored:
        if not self.smiles:
            self.columns = other.columns
        elif other.smiles:
            parts = {name: [values, other.columns[name]] for name, values in self.columns.items()}
            self.columns = {name: np.concatenate(both) for name, both in parts.items()}
        self.smiles += other.smiles
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.columns, "smiles": np.frombuffer("\n".join(self.smiles).encode(), np.uint8)}

    def named(self, places: Sequence[int]) -> list[str]:
        """Return the canonical SMILES at some places, and keep them."""
        pending = [place for place in dict.fromkeys(places) if " " in self.smiles[place]]
        for place, name in zip(pending, _joined([self.smiles[place] for place in pending]), strict=True):
            self.smiles[place] = name
        return [self.smiles[place] for place in places]

    def free(self, excluded: KnownStructures, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether the product at each place is none of the excluded molecules."""
        free = np.ones(len(places), bool)
        if len(excluded):
            # A product has the composition of its synthons together, so few need their SMILES.
            texts = [_DUMMY.sub("", self.smiles[place]) for place in places.tolist()]
            alike = np.array([excluded.may_hold(text) for text in texts], bool)
            free[alike] = excluded.free(self.named(places[alike].tolist()))
        return free

    def alike(self) -> Scored:
        """Return the same products, with equal numbers where fingerprints are equal, as for stereoisomers.

        The last digits of numbers depend on which rows are computed together.
        """
        if not self.smiles:
            return self
        _, first, place = np.unique(self.columns["key"], return_index=True, return_inverse=True)
        alike = (*NUMBERS, STEP)
        first_of_each = {name: v[first][place] if name in alike else v for name, v in self.columns.items()}
        return Scored(self.smiles, first_of_each)


@dataclass(frozen=True)
class _Products:
    """Some products of a file: a chunk for `ProductScores`. Its blocks are their synthons, as texts."""

    path: str
    key: str
    rows: tuple[int, ...] = ()

    def of(self, rows: tuple[int, ...]) -> _Products:
        """Return the chunk of a range of products."""
        return replace(self, rows=rows)

    def __iter__(self) -> Iterator[list[str]]:
        check_stop()
        yield _texts(self.path, self.key)[self.rows[0] : self.rows[1]]


@functools.lru_cache(maxsize=1)
def _texts(path: str, key: str) -> list[str]:
    """Return the synthons of all products of a file, read once per process."""
    return needed_checkpoint(path, key).arrays["texts"].tobytes().decode().split("\n")


@dataclass(frozen=True)
class ProductScores(Reduction[list[str], Scored, Scored]):
    """Scores products by a model.

    Attributes
    ----------
    model, model_hash : str
        Its path, and the hash of its specification.
    rule : Acquisition
    target : int or WeightedSum
    seed : int
        Of the posterior sample.
    draw : str or None
        The file of the posterior sample that ranks; see `daskrf.screens.draws`.
    std : bool
        Whether to predict standard deviations.
    n_labels : int or None
        If given, scores are upper bounds by so many labels, and standard deviations NaN; see
        `daskrf.screens.space.stdbounds`.
    named : bool
        Whether to return the canonical SMILES of all products.
    n_expected : int
        How many products the job scores, roughly: of many, the engine counts the first ones, too.
    """

    model: str
    model_hash: str
    rule: Acquisition
    target: Target
    seed: int = 0
    draw: str | None = None
    std: bool = False
    n_labels: int | None = None
    named: bool = False
    n_expected: int = 0
    name: str = "rank"

    def zero(self) -> Scored:
        return Scored()

    def finalize(self, total: Scored, rest: Iterator[Scored]) -> Scored:
        return total

    def restore(self, arrays: NamedArrays) -> Scored:
        columns = dict(arrays)
        text = columns.pop("smiles").tobytes().decode()
        return Scored(text.split("\n") if len(columns["key"]) else [], columns)

    def add(self, total: Scored, block: list[str]) -> None:
        model = open_model(self.model, self.model_hash, statistics=self.std)
        smiles = _joined(block) if self.named else block
        spec = FingerprintSpec.from_state(model.metadata["fingerprint"])
        fingerprinter = Fingerprinter(spec, model.metadata["fragments"])
        fingerprinter.expect(MANY if self.n_expected >= _MANY else self.n_expected)
        counted = fingerprinter(
            [joined_text(text) or _UNREADABLE for text in block],
            lambda places: [smiles[i] for i in places] if self.named else _joined([block[i] for i in places]),
        )
        if counted.rejects:
            bad, reason = counted.rejects[0]
            raise InputError(f"The product {_joined([block[bad]])[0]} has no fingerprint: {reason}.")
        rows = counted.fingerprints
        texts = (
            rows.indices[start:stop].tobytes() + b"|" + rows.data[start:stop].tobytes()
            for start, stop in itertools.pairwise(rows.indptr.tolist())
        )
        digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
        keys = np.frombuffer(digests, np.int64)
        total += Scored(smiles, {"key": keys, **self._predicted(model, rows, smiles)})

    def _predicted(
        self, model: Model, rows: sparse.csr_matrix, smiles: list[str]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return the columns of numbers of some fingerprints."""

        def describe(numbers: npt.NDArray[np.int64]) -> pa.Table:
            n = len(numbers)
            chosen = Scored([smiles[i] for i in numbers.tolist()]).named(range(n))
            return pa.table({"smiles": chosen, "id": chosen, "line": numbers, "source": ["the space"] * n})

        blocks = []
        for block in feature_blocks(
            feature_map_of(model),
            np.arange(len(smiles)),
            rows,
            None,
            bits=model.gp.one_bit_,
            predicts=True,
            describe=describe,
        ):
            if self.n_labels is not None:
                blocks.append(self._bounded(model, block.phi, self.n_labels))
                continue
            prediction = predictions_of(model, self.target, block.phi, block.diagonal, std=self.std)
            if self.draw is None:
                value = prediction["mean"]
            else:
                function = drawn_function(self.draw, self.model, self.model_hash, self.target, self.seed)
                value = np.asarray(drawn_values(function, block)).reshape(-1)
            numbers_of = {name: np.asarray(v, np.float64) for name, v in prediction.items()}
            blocks.append({"score": self.rule(value, prediction.get("std")), "value": value, **numbers_of})
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def _bounded(
        self, model: Model, rows: sparse.csr_matrix, n_labels: int
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return the columns of numbers of some fingerprints without standard deviations."""
        mean = np.asarray(predictions_of(model, self.target, rows, None, std=False)["mean"], np.float64)
        high = std_bounds(model, self.target, self.rule, rows, n_labels)
        unknown = ["std", "std_y"] + ["probability"] * (model.link_of(self.target) is not None)
        columns = {"score": self.rule.bound(mean, np.zeros(len(mean)), high), "value": mean, "mean": mean}
        return columns | {name: np.full(len(mean), np.nan) for name in unknown}


def _joined(texts: Sequence[str]) -> list[str]:
    """Return the canonical SMILES of the products of some synthons."""
    products = each("daskrf.spaces.synthons:joiner", (), texts)
    for text, one in zip(texts, products, strict=True):
        if isinstance(one, Lost):
            raise InputError(f"RDKit {one.reason} on the synthons {text}.")
    return list(map(str, products))


def product_texts(cut: CutSpace, numbers: npt.NDArray[np.int64]) -> list[str]:
    """Return the SMILES of the synthons of each product given by number, with spaces between."""
    texts = np.empty(len(numbers), object)
    for _, at, synthons in by_reaction(cut, numbers):
        of_slots = [[cut.smiles[synthon] for synthon in slot.tolist()] for slot in synthons]
        texts[at] = [" ".join(of_product) for of_product in zip(*of_slots, strict=True)]
    return list(texts)


def scored(run: Run, scores: ProductScores, model: Model, texts: Sequence[str]) -> Scored:
    """Return the scores of products by a model; results of an earlier run are reused.

    Parameters
    ----------
    run : Run
    scores : ProductScores
    model : Model
        That of `scores`.
    texts : sequence of str
        Synthons, as `product_texts` returns them.
    """
    if not texts:
        return Scored.of_none()
    data = np.frombuffer("\n".join(texts).encode(), np.uint8)
    digest = hashlib.sha256(data.data).hexdigest()
    path = run.work / f"products-{digest[:16]}"
    made_once(path, digest, lambda: ({"texts": data}, {}))
    state = feature_map_of(model)
    std = scores.std and scores.n_labels is None
    seconds = _JOIN_SECONDS + score_seconds(model, state.block_size if state else 0, std=std)
    seconds += BOUND_SECONDS * bool(scores.n_labels)
    size = max(_LEAST_ROWS, min(MOST_ROWS, int(_TASK_SECONDS / seconds), -(-len(texts) // _LEAST_TASKS)))
    groups = [(start, min(start + size, len(texts))) for start in range(0, len(texts), size)]
    of_scores = [scores.model_hash, scores.rule.state(), repr(scores.target), scores.seed, scores.std]
    key = hash_of([digest, *of_scores, scores.named, _VERSION, scores.n_labels])
    chunk = _Products(absolute(path), digest).of
    root = Root(scores, chunk, run.work / f"scores-{key[:16]}", key)
    tree = Tree([root], groups, [stop - start for start, stop in groups], "groups of products")
    tree.make(client=run.client, progress=run.progress)
    result: Scored = tree.result()
    return result.alike()

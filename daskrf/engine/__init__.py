"""The performance-critical operations behind one interface, and the choice of engine that computes them.

Everything that the rest of the package computes in compiled code is a method of :class:`Engine`; a folder
here with functions of these names and arguments is an engine. :func:`engine` imports the chosen one on first
use, once per program: DASKRF_ENGINE names the folder, "cpu" by default.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError

__all__ = [
    "ASK",
    "DONE",
    "QUOTIENT",
    "RATIO",
    "SUM",
    "TILE",
    "UNKNOWN",
    "Blocks",
    "Engine",
    "Factors",
    "Hashes",
    "Molecules",
    "Query",
    "Readings",
    "RingTable",
    "Rows",
    "Shares",
    "engine",
]

Float = TypeVar("Float", bound=np.floating)

Array = npt.NDArray[np.number]
Bits = npt.NDArray[np.uint8]
Single = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

TILE = 64
"""Number of hashed features in a tile: keys come in whole tiles."""

QUOTIENT, RATIO, SUM = 0, 1, 2
"""What :meth:`Engine.overlaps` computes from the sum s of a pair and the totals a, b of its rows:
s / (a + b - s), s / (a + b), or s itself."""


class Rows(NamedTuple):
    """Sparse rows: pointer, columns and values as in a CSR matrix; the first pointer need not be 0."""

    pointer: Array
    columns: Array
    values: Array


class Hashes(NamedTuple):
    """Keys of random hashes of weighted sets, P(h(x) = h(y)) = sum of minima over sum of maxima.

    `weighted`: consistent weighted sampling, for float64 weights, instead of min-wise hashing, for uint16
    counts. `element` is the key of the columns, `low`, `high` (uint32, whole tiles) are those of the hashes,
    and `empty` (uint32) is the hash of a row without entries.
    """

    weighted: bool
    element: np.uint64
    low: npt.NDArray[np.uint32]
    high: npt.NDArray[np.uint32]
    empty: npt.NDArray[np.uint32]


class Blocks(NamedTuple):
    """The diagonals and permutations of n blocks S H G Pi H B, or S H G H C H B, each of shape (n, length).

    `signs` (B), `normals` (G), `scales` (S and all constants) and `turns` (C) are float32, `places` (Pi:
    element i comes from position places[i]) is int32. Either `places` or `turns` has shape (n, 0). `length`
    is a power of two, at least 8.
    """

    signs: npt.NDArray[np.floating]
    places: npt.NDArray[np.int32]
    turns: npt.NDArray[np.floating]
    normals: npt.NDArray[np.floating]
    scales: npt.NDArray[np.floating]


class Factors(NamedTuple):
    """Up to 64 features, each a weight times a product of random projections.

    `keys` (uint64) of the factors; `counts` (int64): how many of the features, counted from the first, have
    each factor, descending; `scales` (float32): multiplier of each factor's projections; `offsets` (float32,
    shape (factors, 64)): what is then subtracted; `weights` (float32) of the features.
    """

    keys: Words
    counts: Integers
    scales: Single
    offsets: Single
    weights: Single


DONE, ASK, UNKNOWN = 0, 1, 2
"""What :meth:`Engine.read_smiles` says of a SMILES: it was read; it is left to RDKit; or the table lacks one
of its ring systems."""


class Molecules(NamedTuple):
    """Molecules as graphs, one after another.

    `atoms` (int8, 6 columns): atomic number, hydrogens, charge, whether it is in a ring, whether it is
    aromatic, number of neighbours. `links` (int16, 3 columns): neighbour and bond, counted from the first of
    the molecule, and kind of bond (1, 2, 3, or 12 if aromatic). `first_links` (int64): the first link of
    each atom. `stops` (int64): where the atoms of each molecule begin, and where the last one's end. Arrays
    may be longer than what they hold.
    """

    atoms: npt.NDArray[np.int8]
    links: npt.NDArray[np.int16]
    first_links: Integers
    stops: Integers


class BondKind(NamedTuple):
    """A kind of features of bonds.

    `name` is "torsion": chains of four atoms, as RDKit, and one around each ring of three; their identifiers
    have up to 36 bits, and are mixed to 32 by the finalizer of SplitMix64. Or "substituents": each side of
    each single bond outside rings. Or "positions": each atom as seen from the bond to one of `blocks`
    (uint32), ascending identifiers of substituents; see `daskrf.molecules.counts.substituents`. Identifiers
    are folded to `size` columns, unless it is 0.
    """

    name: str
    size: int
    blocks: npt.NDArray[np.uint32] | None = None


class Shares(NamedTuple):
    """Count vectors of parts of molecules, as far as they concern a query.

    `counts` (int32) has the columns of the query, `sums` (float64) those of limits; `shared` (int64) is the
    sum of minima of each row and the query, `totals` (int64) the sum of all counts of the row, in any column.
    """

    counts: npt.NDArray[np.int32]
    shared: Integers
    totals: Integers
    sums: Double


class Query(NamedTuple):
    """What pairs are compared with: positive `counts` (int32) of some columns, and their `total`.

    A pair must have a Tanimoto similarity of at least `least`, and sums from `low` to `high` (float64).
    """

    counts: npt.NDArray[np.int32]
    total: int
    least: float
    low: Double
    high: Double


class RingTable(NamedTuple):
    """Ring systems as written, and what RDKit makes of them; made by :meth:`Engine.ring_table`.

    `slots` (int64) is a hash table of the entries; the bytes of entry i are those from `key_stops[i]` to
    `key_stops[i + 1]` of `keys`, and so are its values.
    """

    slots: Integers
    key_stops: Integers
    keys: Bits
    value_stops: Integers
    values: Bits


class Readings(NamedTuple):
    """What became of some SMILES.

    `status` (uint8): DONE, ASK or UNKNOWN. `molecules`: those that are done; others have no atoms. `unknown`:
    the keys of ring systems that the table lacks, all or, if there are thousands, some of them.
    """

    status: Bits
    molecules: Molecules
    unknown: set[bytes]


class Engine(Protocol):
    """The operations. Output arrays are called `out`; all arrays are C-contiguous.

    Bits are packed little-endian, 0 for +1 and 1 for -1; padding bits are zero. Bits and integers are the
    same on every engine, in any batch; floats agree to 1e-6.
    """

    def bit_gram(self, bits: Array, n_components: int, out: Array, first: int = 0) -> None:
        """Add Phi^T Phi of the +1/-1 features to the upper triangle of `out`, diagonal included, exactly.

        Most efficient with 8,000 or more rows per call (1,000 rows reach 40 % of that rate, 64 rows 4 %);
        memory use beyond `out` is at most 2,048 bytes per component.

        Parameters
        ----------
        bits : uint8 array, shape (n, ceil(n_components / 8))
        n_components : int
        out : int64 array, shape (stop, stop - first)
            Columns `first` to `stop` - 1, and only the rows below `stop`: the whole matrix if the shape is
            (n_components, n_components). Entries below the diagonal are left unchanged.
        first : int, default 0
            A multiple of 64.

        Raises
        ------
        InputError
            If `bits` or `out` has the wrong shape or dtype, or `first` is not a multiple of 64.

        Examples
        --------
        >>> gram = np.zeros((2, 2), np.int64)
        >>> engine().bit_gram(np.array([[1], [0], [3]], np.uint8), 2, gram)
        >>> gram.tolist()
        [[3, 1], [0, 3]]
        """

    def bit_sums(self, bits: Array, y: Integers, n_components: int) -> Integers:
        """Return Phi^T y of the +1/-1 features, exactly, for integers: int64 (n_components, n_targets).

        Parameters
        ----------
        bits : uint8 array, shape (n, ceil(n_components / 8))
        y : int64 array, shape (n, n_targets)
            The sum of absolute values of each target must stay below 2**62.
        n_components : int

        Raises
        ------
        InputError
            If `bits` or `y` has the wrong shape or dtype.

        Examples
        --------
        >>> engine().bit_sums(np.array([[1], [0]], np.uint8), np.array([[3], [5]]), 2).tolist()
        [[2], [8]]
        """

    def bit_means(self, bits: Array, n_components: int, weights: npt.NDArray[Float]) -> npt.NDArray[Float]:
        """Return the product of each row's +1/-1 features and the weights, in the dtype of the weights.

        Parameters
        ----------
        bits : uint8 array, shape (n, ceil(n_components / 8))
        n_components : int
        weights : float32 or float64 array, shape (n_components, n_targets)
            Multiply them by 1/sqrt(M) beforehand to get the product with scaled features.

        Raises
        ------
        InputError
            If `bits` or `weights` has the wrong shape or dtype.

        Examples
        --------
        >>> engine().bit_means(np.array([[2]], np.uint8), 2, np.array([[1.0], [0.25]])).tolist()
        [[0.75]]
        """

    def hash_bits(self, rows: Rows, hashes: Hashes) -> Words:
        """Return a random bit for each hash of each row, 64 per word: uint64 of shape (n, hashes / 64)."""

    def hash_levels(
        self, rows: Rows, hashes: Hashes, low: Array, high: Array, levels: Single, out: Single
    ) -> None:
        """Write one of 65,536 `levels` at random for each hash of each row; `low`, `high`: its uint32 keys.

        `out` has shape (n, at most the number of hashes).
        """

    def add_parities(self, bits: Words, starts: Integers, words: Words) -> None:
        """XOR the parity of the bits starts[m] to starts[m + 1] - 1 of each row into bit m of `words`.

        Parameters
        ----------
        bits : uint64 array, shape (n, any)
            Packed bits, the lowest first.
        starts : int64 array, shape (M + 1,)
            Ascending, the last one at most 64 times the number of columns of `bits`.
        words : uint64 array, shape (n, ceil(M / 64))
        """

    def random_products(
        self,
        rows: Rows,
        scales: tuple[Single, Single],
        element: np.uint64,
        tiles: list[Factors],
        levels: Single | None,
        out: Single,
    ) -> None:
        """Write products of random projections of sparse rows, one tile of up to 64 features after another.

        The entries of projections are random signs or normal numbers, determined by the keys and the column
        identifier.

        Parameters
        ----------
        rows : Rows
            `values` float32.
        scales : (float32 array, float32 array), each of shape (n,)
            Multipliers for the projections of each row, and for its features.
        element : uint64
            Key of the columns.
        tiles : list of Factors
            64 features each, except in the last one.
        levels : float32 array, shape (65536,), optional
            Normal numbers; without them, signs.
        out : float32 array, shape (n, M)
        """

    def first_term(
        self, rows: Rows, key: int, places: Integers, weights: Single, slots: Integers, out: Single
    ) -> None:
        """Write the circular convolution of the rows' count sketches with their prefactor sketches to `out`.

        Parameters
        ----------
        rows : Rows
            `values` float32.
        key : int
            64-bit key of the count sketch.
        places : int64 array, shape (P,)
            Bucket of each prefactor feature, below m.
        weights : float32 array, shape (any, P)
            Prefactor features with their signs.
        slots : int64 array, shape (n,)
            Row of `weights` for each row.
        out : float32 array, shape (n, m)
        """

    def product_term(
        self,
        rows: Rows,
        keys: Words,
        spectra: Single,
        slots: Integers,
        out: Single,
        dense: Single | None = None,
    ) -> None:
        """Write the count sketches of x^{(tensor) r}, each times a spectrum, to the rows of `out`.

        Parameters
        ----------
        rows : Rows
            n sparse rows, `values` float32.
        keys : uint64 array, shape (r,) or, with `dense`, (r + 1,)
            Key of each count sketch.
        spectra : float32 array, shape (any, 2 (m // 2 + 1))
            Real and imaginary parts, interleaved.
        slots : int64 array, shape (n,)
            Row of `spectra` for each row.
        out : float32 array, shape (n, m)
            The product of the Fourier transforms: real and imaginary parts of the frequencies 0, 1, ...,
            omitting imaginary parts that are 0 for every real sketch.
        dense : float32 array, shape (n, any but 0), optional
            One additional factor: the count sketch of the dense vectors (1, dense[row]).
        """

    def hadamard_transform(self, x: Single) -> None:
        """Multiply every row of `x`, whose length is a power of two of at least 8, by H, in place.

        H_1 = [1] and H_2d = [[H_d, H_d], [H_d, -H_d]]: entries are +1 and -1, so applying it twice gives d
        times the row. Source: Le, Sarlos & Smola 2013, section 4.2.

        Examples
        --------
        >>> x = np.zeros((1, 8), np.float32)
        >>> x[0, 1] = 3.0
        >>> engine().hadamard_transform(x)
        >>> x[0].tolist()
        [3.0, -3.0, 3.0, -3.0, 3.0, -3.0, 3.0, -3.0]
        """

    def project_blocks(self, rows: Rows | Single, blocks: Blocks, out: Single) -> None:
        """Write the projections of sparse or dense rows, zero-padded, to `out`, shape (n, p).

        Rows are at most as long as the blocks, and p is at most the number of rows of all blocks together.
        """

    def project(self, rows: Rows, directions: Single, out: Single) -> None:
        """Write the products of sparse rows with directions, shape (d, p), to `out`, shape (n, p)."""

    def cosines(self, phases: Single, scale: float, out: Single) -> None:
        """Write cos(2 pi t) and sin(2 pi t), times `scale`, of the first phases t of each row, interleaved.

        `phases` are in turns, shape (n, at least M // 2); in `out`, shape (n, M), the last column is set to 0
        if M is odd. Errors are below 1.2e-7 of `scale`.
        """

    def overlaps(self, right: Rows, *, multiply: bool) -> Overlaps:
        """Prepare sparse rows for sums over the columns that they share with other rows.

        With `multiply`, terms are products and totals are sums of squares; otherwise minima and sums.
        """

    def similar_pairs(
        self, ones: Shares, others: Shares, query: Query, first: int, out: Integers
    ) -> tuple[int, int]:
        """List the pairs whose summed counts are similar to a query, of the rows of `ones` from `first` on.

        The Tanimoto similarity of counts x and q is sum(min(x, q)) / (sum(x) + sum(q) - sum(min(x, q))).

        Parameters
        ----------
        ones, others : Shares
            The rows of `others` are in descending order of `shared`, then in ascending order of `totals`.
        query : Query
        first : int
        out : int64 array, shape (at least the rows of `others`, 3)
            Its first rows get the rows of each pair, and its sum of minima.

        Returns
        -------
        int, int
            How many pairs were found, and the row of `ones` to go on with: `out` may be full before the end.

        Examples
        --------
        >>> none = np.empty((1, 0))
        >>> one = Shares(np.array([[1, 2]], np.int32), np.array([3]), np.array([4]), none)
        >>> other = Shares(np.array([[1, 0]], np.int32), np.array([1]), np.array([1]), none)
        >>> out = np.empty((4, 3), np.int64)
        >>> query = Query(np.array([2, 2], np.int32), 4, 0.7, np.empty(0), np.empty(0))
        >>> engine().similar_pairs(one, other, query, 0, out), out[0].tolist()
        ((1, 1), [0, 0, 4])
        """

    def radial_values(
        self, left: Single, right: Single, factor: float, form: tuple[bool, float, float], out: Single
    ) -> None:
        """Turn inner products into kernel values in place: q(z) exp(-z), z = factor |x - y|^2 or its root.

        Parameters
        ----------
        left, right : float32 arrays, shapes (n,) and (m,)
            Squared norms. A row of infinite norm gets zeros.
        factor : float
        form : (bool, float, float)
            Whether z is the root, then a and b of q(z) = 1 + a z + b z^2; q is 1 if z is not the root.
        out : float32 array, shape (n, m)
        """

    def add_squares(self, values: Single, scales: Single, largest: Single, total: Single) -> None:
        """Raise `largest` to the largest (scales_j values_ij)^2 of each row i, and add their sum to `total`.

        Negative values do not count as the largest, but in the sum. `values` has shape (n, m), `scales` (m,),
        `largest` and `total` (n,).
        """

    def ring_table(self, entries: Mapping[bytes, bytes]) -> RingTable:
        """Return a table of ring systems.

        Parameters
        ----------
        entries : dict of bytes to bytes
            By key, as `read_smiles` reports it: one byte, 1 if SMILES with it are left to RDKit, else 0; for
            each atom its hydrogens, plus 128 if it is aromatic; for each bond its kind.
        """

    def read_smiles(self, text: Bits, stops: Integers, table: RingTable, *, dots: bool) -> Readings:
        """Read SMILES as RDKit does, or leave them to it.

        Parameters
        ----------
        text : uint8 array
            The SMILES, one after another.
        stops : int64 array, shape (n + 1,)
            Where each one begins, and where the last one ends.
        table : RingTable
        dots : bool
            Whether SMILES of several fragments are read; otherwise they are left to RDKit.

        Examples
        --------
        >>> text, stops = np.frombuffer(b"CCOC(C", np.uint8), np.array([0, 3, 6])
        >>> read = engine().read_smiles(text, stops, engine().ring_table({}), dots=True)
        >>> read.status.tolist(), read.molecules.stops.tolist(), read.molecules.atoms[:3, :2].tolist()
        ([0, 1], [0, 3, 3], [[6, 3], [6, 2], [8, 1]])
        """

    def environment_counts(self, molecules: Molecules, radius: int, *, classes: bool, size: int) -> Rows:
        """Count the Morgan environments of molecules, as RDKit: ascending identifiers, and counts.

        Parameters
        ----------
        molecules : Molecules
        radius : int
            Up to 3.
        classes : bool
            Begin with the classes of atoms (donor, acceptor and so on) rather than their types.
        size : int
            Fold the identifiers to this many columns; 0 does not.
        """

    def pair_counts(self, molecules: Molecules, distance: int, *, size: int) -> Rows:
        """Count the pairs of atoms at most `distance` bonds apart, up to 30, as RDKit; else as above."""

    def bond_counts(self, molecules: Molecules, kinds: Sequence[BondKind]) -> list[Rows]:
        """Count features of bonds, of several kinds, which share what they have in common; else as above.

        Parameters
        ----------
        molecules : Molecules
        kinds : sequence of BondKind
        """

    def hash_texts(self, text: Bits, stops: Integers) -> Words:
        """Return a key of 128 bits for each text: uint64 array, shape (n, 2).

        Among 10^9 texts, two different ones have the same key with a probability of 10^-21.

        Parameters
        ----------
        text : uint8 array
            The texts, one after another.
        stops : int64 array, shape (n + 1,)
            Where each one begins, and where the last one ends.
        """

    def number_keys(self, keys: Words, slots: Array, numbers: Array) -> int:
        """Number the distinct keys by first appearance; return how many there are.

        Parameters
        ----------
        keys : uint64 array, shape (n, 2)
            The distinct keys are moved to its beginning.
        slots : signed integer array, longer than n
            All -1. It becomes the hash table for `find_keys`: the number of a key, or -1.
        numbers : signed integer array, shape (n,)
            Overwritten with the number of each key.

        Examples
        --------
        >>> keys = engine().hash_texts(np.frombuffer(b"ABA", np.uint8), np.arange(4))
        >>> slots, numbers = np.full(6, -1), np.empty(3, np.int64)
        >>> engine().number_keys(keys, slots, numbers), numbers.tolist()
        (2, [0, 1, 0])
        >>> engine().find_keys(keys[:2], slots, keys[1:2]).tolist()
        [1]
        """

    def find_keys(self, keys: Words, slots: Array, wanted: Words) -> Integers:
        """Return the numbers of the `wanted` keys in a table made by `number_keys`; -1 for keys not there."""


Overlaps = Callable[[Rows, npt.DTypeLike, Integers | None, int, Array], tuple[Double, Double]]
"""Writes the coefficients of some rows of the left (numbers, or None for all) with all rows of the right.

Arguments: the rows of the left; the dtype in which terms are summed (an unsigned integer type, to whose range
values are clipped and in which all sums fit, or float64); the row numbers; what to compute from the sums
(QUOTIENT, RATIO, SUM); and `out`, shape (n, m). Returns the totals of the rows of the left and of the right,
summed in the order of the terms, so that the quotient of equal rows is exactly 1.
"""


@cache
def engine() -> Engine:
    """Return the engine of this program.

    Raises
    ------
    InputError
        If DASKRF_ENGINE does not name an engine.
    """
    name = os.environ.get("DASKRF_ENGINE") or "cpu"
    home = f"daskrf.engine.{name}"
    if re.fullmatch(r"[a-z]\w*", name):
        try:
            return cast(Engine, importlib.import_module(home))
        except ModuleNotFoundError as error:
            if error.name != home:
                raise
    raise InputError(f"DASKRF_ENGINE is {name!r}, which is not an engine; unset it to use the CPU.")


class _Package(Protocol):
    """What an engine's package has besides the operations."""

    def starts_soon(self) -> bool:
        """Return whether its operations were compiled here before."""


def starts_soon() -> bool:
    """Return whether the engine of this program was compiled here before, which takes some 15 seconds."""
    return cast(_Package, engine()).starts_soon()

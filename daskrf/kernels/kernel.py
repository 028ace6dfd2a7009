"""The contract of exact kernels, and how they are rebuilt from their state."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cache
from inspect import isabstract, signature
from typing import Any, ClassVar, Final, Protocol, Self, TypedDict

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_rows, row_slice, shape_of
from daskrf.errors import InputError
from daskrf.exports import declared
from daskrf.tokens import token_of

_BLOCK_BYTES = 64 * 2**20
_SHOWN = 80  # characters shown of a long value

Array = npt.NDArray[np.float64]

AUTO: Final = "auto"
"""In place of a length scale: let the labels determine it. Only `fit` and `evaluate` can do that."""

UNDECIDED: Final = (
    "The length scale is not known yet: fit chooses it from the labels; everything else needs a number "
    "(--length-scale), such as the one that fit printed."
)
"""Message for a length scale that is `AUTO` without labels to determine it."""

UNLEARNED: Final = (
    "The metric is not known yet: fit learns it from the labels (with --map fourier --kernel metric); "
    "everything else needs a metric that has been learned."
)
"""Message for a metric that is `AUTO` where nothing learns it."""


class KernelState(TypedDict):
    """What :meth:`Kernel.state` returns; a kernel among the parameters is such a state itself."""

    kernel: str
    parameters: dict[str, object]


class Prepared(Protocol):
    """The function X -> k(X, Y) that :meth:`Kernel.against` returns."""

    def __call__(self, X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
        """Return the kernel matrix of the rows of `X`, rounded to `dtype` (float64 or float32) at the end."""


class Kernel(ABC):
    """A positive definite function of two rows, small and immutable; k(x, x) = 1 unless stated otherwise.

    The constructor only stores parameters, which `parameters` returns; two kernels of the same class with
    equal parameters are equal.
    """

    name: ClassVar[str] = ""
    """Its name on the command line; empty if it cannot be chosen there."""

    option_defaults: ClassVar[dict[str, object]] = {}
    """Defaults on the command line, where rows are counts, if they differ from the constructor's; see
    `daskrf.parameters`."""

    @abstractmethod
    def against(self, Y: MatrixLike) -> Prepared:
        """Return the function X -> k(X, Y), float64 of shape (n, m), with everything about `Y` prepared.

        The function also takes `dtype=np.float32`, which rounds results at the end and takes half the memory.
        It works row by row and may be called from several threads.

        Parameters
        ----------
        Y : scipy.sparse, pydata/sparse or dense array, shape (m, d)

        Raises
        ------
        InputError
            If the kernel does not support a value. The function raises it for the same reason, or if the
            number of columns differs from that of `Y`.
        """

    def against_single(self, Y: MatrixLike) -> Prepared:
        """Return the function X -> k(X, Y) with results in float32, which it may also compute in float32.

        The errors are below 2e-5 of the largest k(x, x), and mostly a hundredth of that. This is meant for
        features, which are kept in single precision. By default it is the same as `against`.
        """
        return self.against(Y)

    def distance(self, X: MatrixLike, Y: MatrixLike | None = None) -> Array:
        """Return the metric that belongs to the kernel, float64 of shape (n, m); `Y` defaults to `X`.

        Unless a kernel says otherwise, it is sqrt((k(x, x) + k(y, y)) / 2 - k(x, y)): the distance in the
        kernel's Hilbert space, divided by sqrt(2). Its rounding error is about 1e-8 of sqrt(k(x, x)).
        """
        squared = self(X, Y)
        diagonal = self.diag(X)
        # One sum, so that it is the same for (x, y) and (y, x).
        np.subtract((diagonal[:, None] + (diagonal if Y is None else self.diag(Y))) / 2, squared, out=squared)
        if Y is None:
            np.fill_diagonal(squared, 0.0)
        np.maximum(squared, 0.0, out=squared)
        return np.sqrt(squared, out=squared)

    def __call__(self, X: MatrixLike, Y: MatrixLike | None = None) -> Array:
        """Return the kernel matrix of the rows of `X` and of `Y` (default `X`).

        Parameters
        ----------
        X, Y : scipy.sparse, pydata/sparse or dense arrays, shapes (n, d) and (m, d)

        Returns
        -------
        float64 array, shape (n, m)

        Raises
        ------
        InputError
            If the numbers of columns differ, or the kernel does not support a value.
        """
        return self.against(X if Y is None else Y)(X).astype(np.float64, copy=False)

    def blocks(
        self, X: MatrixLike, Y: MatrixLike | None = None, *, rows: int | None = None
    ) -> Iterator[tuple[slice, Array]]:
        """Yield slices of the rows of `X` with these rows of the kernel matrix, in bounded memory.

        Parameters
        ----------
        X, Y : as for a call
        rows : int, optional
            Rows in a block, at least 1. Default: blocks of 64 MiB.

        Raises
        ------
        InputError
            As for a call; the message says from which row of `X` it counts rows.
        """
        X = as_rows(X)
        Y = X if Y is None else as_rows(Y)
        for chunk, values in prepared_blocks(self.against(Y), X, Y.shape[0], rows=rows):
            yield chunk, values.astype(np.float64, copy=False)

    @property
    def positive_rows(self) -> bool:
        """Whether rows must not have negative values."""
        return False

    @property
    def has_unit_diagonal(self) -> bool:
        """Whether k(x, x) = 1 for every row."""
        return type(self).diag is Kernel.diag

    def diag(self, X: MatrixLike) -> Array:
        """Return k(x, x) of each row of `X`, float64 of shape (n,): 1 for most kernels."""
        return np.ones(shape_of(X)[0])

    def parameters(self) -> dict[str, object]:
        """Return the constructor's parameters, JSON-able; attributes of the same names hold them."""
        return {name: _plain(getattr(self, name)) for name in _names(type(self))}

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the constructor's parameters, for ``kernel__length_scale`` and the like in scikit-learn."""
        return {name: getattr(self, name) for name in _names(type(self))}

    def with_parameters(self, **parameters: object) -> Self:
        """Return the kernel with other values of some parameters.

        Raises
        ------
        InputError
            If there is no such parameter.

        Examples
        --------
        >>> from daskrf import Gaussian
        >>> Gaussian(2.0).with_parameters(length_scale=3.0)
        Gaussian(length_scale=3.0)
        """
        for name in parameters.keys() - set(_names(type(self))):
            names = ", ".join(_names(type(self))) or "none"
            raise InputError(f"{type(self).__name__} has no parameter {name!r}; it has {names}.")
        return type(self)(**self.get_params() | parameters)

    def __sklearn_clone__(self) -> Self:
        return self

    @property
    def undecided(self) -> bool:
        """Whether a length scale is `AUTO`: labels have to determine it first."""
        return is_undecided(self.parameters())

    def with_length_scale(self, length_scale: float) -> Kernel:
        """Return the kernel with a number for each length scale that is `AUTO`."""
        return from_state(decided(self.state(), length_scale))

    def words(self) -> str:
        """Return a one-line description of the kernel for people."""
        return short(self)

    def state(self) -> KernelState:
        """Return the JSON-able dictionary from which :func:`from_state` rebuilds the kernel."""
        return {"kernel": type(self).__name__, "parameters": self.parameters()}

    def __dask_tokenize__(self) -> object:
        """Return what Dask names tasks by."""
        return token_of(self, self.parameters(), self.get_params(deep=False))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.state() == other.state()

    def __hash__(self) -> int:
        return hash((type(self), repr(self.parameters())))

    def __repr__(self) -> str:
        shown = _brief(self.parameters()).items()
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown)})"


def as_integer(name: str, value: Any, least: int, most: int) -> int:
    """Return a parameter as an int, or raise InputError if it is not an integer from `least` to `most`."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise InputError(f"{name} must be an integer from {least} to {most:,}, not {value!r}.")
    return number


def as_number(value: Any) -> float:
    """Return `value` as a float, or NaN if it is not a number."""
    try:
        return math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def is_undecided(state: object, *names: str) -> bool:
    """Return whether the state of a kernel or a map has a length scale or metric `AUTO` in any part.

    If `names` of parameters are given, only these are considered.

    Examples
    --------
    >>> is_undecided({"inner": {"parameters": {"length_scale": "auto"}}})
    True
    """
    if isinstance(state, dict):
        is_auto = AUTO in map(state.get, names or ("length_scale", "metric"))
        return is_auto or any(is_undecided(each, *names) for each in state.values())
    return isinstance(state, (list, tuple)) and any(is_undecided(each, *names) for each in state)


def decided(state: Any, length_scale: float, metric: str | None = None) -> Any:
    """Return the state of a kernel or a map with a number for each length scale that is `AUTO`.

    Raises
    ------
    InputError
        If a metric is `AUTO`, and none is given.

    Examples
    --------
    >>> decided({"inner": {"parameters": {"length_scale": "auto", "nu": 1.5}}}, 3.0)
    {'inner': {'parameters': {'length_scale': 3.0, 'nu': 1.5}}}
    """
    if isinstance(state, dict):
        result = {name: decided(value, length_scale, metric) for name, value in state.items()}
        if metric is None and result.get("metric") == AUTO:
            raise InputError(UNLEARNED)
        settings = {"length_scale": float(length_scale), "metric": metric}
        return result | {name: value for name, value in settings.items() if result.get(name) == AUTO}
    several = isinstance(state, (list, tuple))
    return [decided(each, length_scale, metric) for each in state] if several else state


def as_positive(name: str, value: object) -> float:
    """Return a parameter as a float, or raise InputError if it is not a finite number above 0."""
    number = as_number(value)
    if not 0.0 < number < math.inf:
        raise InputError(f"{name} must be a finite number above 0, not {value!r}.")
    return number


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(signature(cls).parameters)


def _plain(value: object) -> object:
    if isinstance(value, Kernel):
        return value.state()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _brief(value: object) -> Any:
    """Return a parameter with long texts shortened, such as a metric of a megabyte."""
    if isinstance(value, dict):
        return {name: _brief(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_brief(each) for each in value]
    return short(value) if isinstance(value, str) else value


def short(value: object) -> str:
    """Return the beginning of a value as text.

    Examples
    --------
    >>> short([1.0, 2.0]), len(short(list(range(999))))
    ('[1.0, 2.0]', 83)
    """
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def known_kernels(kind: type[Kernel] = Kernel) -> dict[str, type[Kernel]]:
    """Return the kernels of a kind that the command line offers, by their names there.

    Examples
    --------
    >>> "gaussian" in known_kernels()
    True
    """
    classes = declared(__package__, Kernel).values()
    return {cls.name: cls for cls in classes if cls.name and issubclass(cls, kind)}


def prepared_blocks(
    prepared: Prepared,
    X: sp.csr_matrix | npt.NDArray[np.floating],
    m: int,
    *,
    rows: int | None = None,
    single: bool = False,
) -> Iterator[tuple[slice, npt.NDArray[np.floating]]]:
    """Yield slices of the rows of `X` with the results of `prepared` for them; see `Kernel.blocks`.

    `X` is dense or canonical CSR; `m` is the number of columns of the result, which is float32 with
    `single`.

    Raises
    ------
    InputError
        As `prepared`; the message says from which row of `X` it counts rows.
    """
    n = X.shape[0]
    rows = max(1, _BLOCK_BYTES // (8 * max(1, m))) if rows is None else rows
    if rows < 1:
        raise InputError(f"rows must be at least 1, not {rows}.")
    for start in range(0, n, rows):
        chunk = slice(start, min(start + rows, n))
        try:
            piece = row_slice(X, chunk.start, chunk.stop)
            block = prepared(piece, dtype=np.float32) if single else prepared(piece)
        except InputError as error:
            if start == 0:
                raise
            raise InputError(f"{error} Here rows are counted from row {start} of X.") from None
        yield chunk, block


def from_state(state: KernelState) -> Kernel:
    """Rebuild the kernel whose :meth:`Kernel.state` is `state`.

    Raises
    ------
    InputError
        If the class or a parameter is unknown.

    Examples
    --------
    >>> from daskrf.kernels import TanimotoMinMax
    >>> from_state(TanimotoMinMax().state())
    TanimotoMinMax()
    """
    classes: dict[str, Callable[..., Kernel]] = {
        name: cls for name, cls in declared(__package__, Kernel).items() if not isabstract(cls)
    }
    name = state.get("kernel", "")
    if name not in classes:
        raise InputError(f"Kernel {name!r} is unknown here; known kernels: {', '.join(sorted(classes))}.")
    try:
        return classes[name](**state.get("parameters", {}))
    except TypeError as error:
        raise InputError(f"The state of kernel {name} does not fit it: {error}.") from None

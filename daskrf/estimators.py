"""What scikit-learn asks of estimators, without importing it, which loads SciPy's statistics and pandas.

That takes a second and 80 MiB of a command that reads no table, and a third of a second and 37 MiB of others
and of each worker.

scikit-learn itself is imported where it is needed, by what only a program that already uses it calls.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from daskrf.arrays import MatrixLike
from daskrf.errors import InputError

if TYPE_CHECKING:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import Tags
    from sklearn.utils.metadata_routing import MetadataRequest

_T = TypeVar("_T")
_ROUTED = ("fit", "predict", "score")
_COPIED = {"_metadata_request", "_sklearn_output_config"}  # by clones
_SHOWN = 300  # characters of the value of a parameter


class _Requests(dict[str, Any]):
    """What each method asks for by metadata routing; never changed."""

    def __sklearn_clone__(self) -> Self:
        return self


class Estimator:
    """An object whose parameters are the attributes that its constructor stores under their own names."""

    _metadata_request: _Requests  # by this name scikit-learn copies it

    @property
    def sparse_rows(self) -> bool:
        """Whether rows may be sparse matrices."""
        return True

    @property
    def positive_rows(self) -> bool:
        """Whether rows must not have negative values."""
        return False

    @property
    def needs_fit(self) -> bool:
        """Whether `fit` must come before everything else."""
        return True

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters by name; if `deep`, also their own parameters, as ``outer__inner``.

        Examples
        --------
        >>> from daskrf import Gaussian, RandomFourierFeatures
        >>> RandomFourierFeatures(Gaussian(2.0), 64).get_params()["kernel__length_scale"]
        2.0
        """
        values = {name: getattr(self, name) for name in defaults_of(type(self))}
        if not deep:
            return values
        inner = {
            f"{outer}__{name}": each
            for outer, value in values.items()
            if hasattr(value, "get_params") and not isinstance(value, type)
            for name, each in value.get_params().items()
        }
        return inner | values

    def set_params(self, **parameters: object) -> Self:
        """Set parameters, also those of parameters, as ``outer__inner``; return the object itself.

        Raises
        ------
        ValueError
            If there is no such parameter.

        Examples
        --------
        >>> from daskrf import Gaussian, RandomFourierFeatures
        >>> RandomFourierFeatures(Gaussian(2.0), 64).set_params(kernel__length_scale=3.0, n_components=32)
        RandomFourierFeatures(kernel=Gaussian(length_scale=3.0), n_components=32)
        """
        inner: dict[str, dict[str, object]] = defaultdict(dict)
        for name, value in parameters.items():
            outer, _, rest = name.partition("__")
            if outer not in defaults_of(type(self)):
                raise InputError(
                    f"{type(self).__name__} has no parameter {outer!r}; it has "
                    f"{', '.join(defaults_of(type(self)))}."
                )
            if rest:
                inner[outer][rest] = value
            else:
                setattr(self, outer, value)
        for name, values in inner.items():
            setattr(self, name, _changed(name, getattr(self, name), values))
        return self

    def __repr__(self) -> str:
        changed = [
            f"{name}={_short(value)}"
            for name, default in defaults_of(type(self)).items()
            if not _same(value := getattr(self, name), default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__.copy()

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))

    def get_metadata_routing(self) -> MetadataRequest:
        """Return which metadata each method asks for, with scikit-learn's metadata routing."""
        from sklearn.utils.metadata_routing import MetadataRequest

        requests = MetadataRequest(owner=self)
        for method in _ROUTED:
            settings = self._requested(method)
            for name in _keywords(getattr(type(self), method, None)):
                getattr(requests, method).add_request(param=name, alias=settings.get(name))
        return requests

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Ask for keywords of `fit` by metadata routing: True, False, None, or the name of what is given."""
        return self._ask_for("fit", requests)

    def set_predict_request(self, **requests: bool | str | None) -> Self:
        """Ask for keywords of `predict`, as `set_fit_request`."""
        return self._ask_for("predict", requests)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Ask for keywords of `score`, as `set_fit_request`."""
        return self._ask_for("score", requests)

    def _ask_for(self, method: str, requests: dict[str, bool | str | None]) -> Self:
        names = _keywords(getattr(type(self), method, None))
        if unknown := sorted(requests.keys() - set(names)):
            accepted = f"it takes {', '.join(names)}" if names else "it takes none"
            raise InputError(f"{type(self).__name__}.{method} takes no {unknown[0]!r}; {accepted}.")
        others: dict[str, object] = getattr(self, "_metadata_request", {})
        self._metadata_request = _Requests(others | {method: self._requested(method) | requests})
        return self

    def _requested(self, method: str) -> dict[str, bool | str | None]:
        return getattr(self, "_metadata_request", {}).get(method, {})

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import InputTags, Tags, TargetTags

        rows = InputTags(sparse=self.sparse_rows, positive_only=self.positive_rows)
        target = TargetTags(required=False)
        return Tags(estimator_type=None, target_tags=target, input_tags=rows, requires_fit=self.needs_fit)


class Transformer(Estimator):
    """An estimator that turns rows into float32 features."""

    def fit_transform(self, X: MatrixLike, y: object = None) -> object:
        """Fit to rows and return their features."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Choose what `transform` returns: arrays, or a data frame of one of these packages.

        None keeps what was chosen before. Until something is, ``sklearn.set_config(transform_output=...)``
        decides.
        """
        if transform not in (None, "default", "pandas", "polars"):
            raise InputError(f"transform must be 'default', 'pandas' or 'polars', not {transform!r}.")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # by this name scikit-learn copies it
        return self

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags

    def _as_chosen(self, features: object, X: MatrixLike) -> Any:
        """Return features of `X` as an array, or as the data frame that `set_output` chose."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        if chosen is None and "sklearn" in sys.modules:
            import sklearn

            chosen = sklearn.get_config()["transform_output"]
        if chosen in (None, "default") or not isinstance(features, np.ndarray):
            return features
        names = list(self.get_feature_names_out())  # type: ignore[attr-defined]
        if chosen == "polars":
            import polars

            return polars.DataFrame(features, schema=names, orient="row")
        import pandas as pd

        index = X.index if isinstance(X, pd.DataFrame | pd.Series) else None
        return pd.DataFrame(features, index=index, columns=names, copy=False)


class Regressor(Estimator):
    """An estimator that predicts numbers."""

    several_targets: ClassVar[bool] = True
    """Whether y may have several columns."""

    single_target: ClassVar[bool] = True
    """Whether y may be one-dimensional."""

    def score(self, X: MatrixLike, y: object, sample_weight: object = None) -> float:
        """Return the coefficient of determination R^2 of the predicted means, averaged over targets."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import RegressorTags, TargetTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags = TargetTags(
            required=True, multi_output=self.several_targets, single_output=self.single_target
        )
        return tags


def clone(estimator: _T) -> _T:
    """Return an estimator with the same parameters that is not fitted; parameters are copied.

    Examples
    --------
    >>> from daskrf import TanimotoMinMaxFeatures
    >>> clone(TanimotoMinMaxFeatures(64))
    TanimotoMinMaxFeatures(n_components=64)
    """
    if not isinstance(estimator, Estimator):
        from sklearn.base import clone as any_clone

        return any_clone(estimator)
    values = estimator.get_params(deep=False)
    made: Any = type(estimator)(**{name: _copied(value) for name, value in values.items()})
    for name in _COPIED & estimator.__dict__.keys():
        setattr(made, name, copy.deepcopy(getattr(estimator, name)))
    return made


def not_fitted(estimator: object) -> NotFittedError:
    """Return scikit-learn's error for an estimator that is not fitted."""
    from sklearn.exceptions import NotFittedError

    return NotFittedError(f"this {type(estimator).__name__} is not fitted yet: call fit first.")


def defaults_of(cls: type) -> dict[str, object]:
    """Return the parameters of a class by name, sorted, with their defaults.

    Examples
    --------
    >>> from daskrf import SCISSORS
    >>> defaults_of(SCISSORS)["measure"]
    'tanimoto'
    """
    return _defaults(cls)


@functools.cache
def _defaults(cls: type) -> dict[str, object]:
    parameters = inspect.signature(cls).parameters.values()
    named = {each.name: each.default for each in parameters if each.kind is not each.VAR_KEYWORD}
    return dict(sorted(named.items()))


def _keywords(method: Any) -> list[str]:
    """Return the parameters of a method besides rows and labels."""
    names = list(inspect.signature(method).parameters) if method is not None else []
    return [name for name in names if name not in ("self", "X", "y")]


def _changed(name: str, value: object, inner: dict[str, object]) -> object:
    """Return a parameter with parameters of its own changed: itself, or another if it is immutable."""
    if hasattr(value, "with_parameters"):
        return value.with_parameters(**inner)
    if not hasattr(value, "set_params"):
        raise InputError(f"{name} is {_short(value)}, which has no parameter {next(iter(inner))!r}.")
    return value.set_params(**inner)


def _copied(value: object) -> object:
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(map(_copied, value))
    if hasattr(value, "get_params") and not isinstance(value, type):
        return clone(value)
    return copy.deepcopy(value)


def _same(value: object, default: object) -> bool:
    """Return whether a parameter has its default, also if comparing gives an array."""
    return value is default or (type(value) is type(default) and repr(value) == repr(default))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}...{text[-_SHOWN // 2 :]}"

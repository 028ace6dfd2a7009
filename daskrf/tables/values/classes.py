"""Two classes: which words of a column mean the positive class, and which the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, printable
from daskrf.quantities import amount, listed

_PAIRS: Final = (
    *(("true", "false"), ("t", "f"), ("yes", "no"), ("y", "n"), ("active", "inactive")),
    *(("positive", "negative"), ("pos", "neg"), ("+", "-"), ("hit", "miss"), ("pass", "fail")),
)
_NEGATIONS = ("non", "non-", "non ", "not ", "not-", "no ", "in", "im", "un")
_MOST_WORDS = 20  # different words of a column that may be classes; more are names or remarks
_SHOWN = 40  # characters of a word in a message


class ClassWordsState(TypedDict):
    """What `ClassWords.state` returns."""

    positive: list[str]
    negative: list[str]


@dataclass(frozen=True)
class ClassWords:
    """The words of two classes, as they are first written in a column.

    Attributes
    ----------
    positive, negative : tuple of str
        Words that are read as 1, and as 0.

    Examples
    --------
    >>> words = ClassWords.of(["Toxic", "non-toxic", "toxic"], "'AMES'")
    >>> words.value("TOXIC"), words.value("Non-toxic"), words.value("unclear")
    (1.0, 0.0, None)
    >>> print(words.words())
    'Toxic' read as 1 and 'non-toxic' as 0
    """

    positive: tuple[str, ...] = ("1",)
    negative: tuple[str, ...] = ("0",)

    @classmethod
    def of(cls, texts: Sequence[str], where: str, positive: Sequence[str] = ()) -> ClassWords | None:
        """Return the classes of a column without numbers, or None if it may hold something else.

        Parameters
        ----------
        texts : sequence of str
            Its cells, without empty ones.
        where : str
            Names the column in messages.
        positive : sequence of str
            Words that mean the positive class, if the user names them; all others then mean the other class.

        Raises
        ------
        InputError
            If it is not known which of two words is positive, or there are more than two.
        """
        spelled = _spelled(texts)
        ones = [word for word in spelled if word in {text.strip().lower() for text in positive}]
        if ones:
            zeros = [word for word in spelled if word not in ones]
            if len(spelled) > _MOST_WORDS:
                raise InputError(
                    f"{where} holds more than {_MOST_WORDS} different words or numbers, which are no "
                    "classes; leave out --positive"
                )
            if not zeros and len(ones) > 1:
                raise InputError(
                    f"{where} holds no other words than those that --positive names "
                    f"({_listed(spelled.values())}); name only the positive class"
                )
            return cls(tuple(spelled[word] for word in ones), tuple(spelled[word] for word in zeros))
        if (pair := _usual_pair(spelled)) is not None:
            return cls(*((spelled.get(word, word),) for word in pair))
        return None

    @staticmethod
    def ask(texts: Sequence[str], where: str, positive: Sequence[str] = ()) -> None:
        """Ask for the positive class of a column that holds words alone.

        Raises
        ------
        InputError
            Always: with one word there is nothing to learn, and of several it is not known which is positive.
        """
        words = list(_spelled(texts).values())
        names = _listed(words[:_MOST_WORDS])
        option = f"--positive {_option(words[0])} (positive={words[0]!r})"
        if len(words) == 1:
            raise InputError(
                f"{where} holds only the word {names}: a model needs molecules of two classes; add those of "
                "the other"
            )
        if positive:
            raise InputError(
                f"{where} holds the words {names}, and not {positive[0]!r}, which --positive names; write it "
                "as in the file"
            )
        if len(words) == 2:
            raise InputError(
                f"{where} holds the words {names}, and it is not known which is the positive class; name it, "
                f"for example {option}"
            )
        more = f" and {len(words) - _MOST_WORDS:,} more" if len(words) > _MOST_WORDS else ""
        raise InputError(
            f"{where} holds no numbers, but {amount(len(words), 'different words')} ({names}{more}), and a "
            f"model has two classes: name the positive ones, for example {option}, and all others are the "
            "other class; or name the column of the labels with --target"
        )

    def value(self, text: str) -> float | None:
        """Return 1 for a word of the positive class, 0 for one of the other, None for any other text."""
        word = text.strip().lower()
        if word in {each.lower() for each in self.positive}:
            return 1.0
        return 0.0 if word in {each.lower() for each in self.negative} else None

    @property
    def name(self) -> str:
        """The positive class, in words."""
        return " or ".join(self.positive)

    @property
    def are_numbers(self) -> bool:
        """Whether the labels are written as 1 and 0."""
        return self == ClassWords()

    def words(self) -> str:
        """Return how the words are read."""
        zeros = _listed(self.negative) or "all others"
        return f"{_listed(self.positive)} read as 1 and {zeros} as 0"

    def state(self) -> ClassWordsState:
        """Return a dict for JSON that rebuilds it."""
        return {"positive": list(self.positive), "negative": list(self.negative)}

    @classmethod
    def from_state(cls, state: ClassWordsState) -> ClassWords:
        """Return the classes with a `state`."""
        return cls(tuple(map(str, state["positive"])), tuple(map(str, state["negative"])))


def are_classes(y: npt.ArrayLike) -> bool:
    """Return whether values are two classes: only 0 and 1, and at least one of each; NaN is no value.

    Examples
    --------
    >>> are_classes([0.0, 1.0, float("nan")]), are_classes([1.0, 1.0]), are_classes([0.0, 1.0, 2.0])
    (True, False, False)
    """
    labels: npt.NDArray[np.float64] = np.asarray(y, dtype=np.float64)
    there = labels[np.isfinite(labels)]
    return bool(((there == 0) | (there == 1)).all() and there.min(initial=1) < there.max(initial=0))


def is_truth(texts: Sequence[str]) -> bool:
    """Return whether texts are words of a pair whose positive one is known, such as TRUE and FALSE.

    Examples
    --------
    >>> is_truth(["TRUE", "False"]), is_truth(["toxic", "nontoxic"]), is_truth(["yes", "true"]), is_truth([])
    (True, True, False, False)
    """
    return _usual_pair(_spelled(texts)) is not None


def _spelled(texts: Sequence[str]) -> dict[str, str]:
    """Return the words in the order of their first places, each as it is written there."""
    spelled: dict[str, str] = {}
    for text in texts:
        spelled.setdefault(text.lower(), text)
    return spelled


def _usual_pair(spelled: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the positive and the negative word of a pair, by its usual words or by a negation."""
    words = spelled.keys()
    if not words or len(words) > 2:
        return None
    if pair := next((pair for pair in _PAIRS if words <= set(pair)), None):
        return pair
    if len(words) == 2:
        one, other = words
        for positive, negative in ((one, other), (other, one)):
            negated = any(negative == f"{negation}{positive}" for negation in _NEGATIONS)
            if negated and positive.isalpha() and len(positive) > 1:
                return positive, negative
    return None


def _listed(words: Sequence[str] | Any) -> str:
    return listed([printable(word, _SHOWN) for word in words], "'")


def _option(word: str) -> str:
    return f"'{word}'" if not word.isalnum() else word

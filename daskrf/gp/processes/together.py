"""Fit several exact models in step, so that each kernel value is computed once for all of them.

Targets with the same rows share one kernel matrix but differ in their noise, so conjugate gradients solve
different equations for them. The products with the matrix can still be computed together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from daskrf.arrays import MatrixLike
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.solve.kernelmatrix import KernelMatrix, KernelMatrixState, Products, Terms

Single = npt.NDArray[np.float32]
Ask = Callable[[Terms], Single]

Question = TypeVar("Question")
Reply = TypeVar("Reply")
Result = TypeVar("Result")


def fit_together(
    processes: Sequence[ExactGP], X: MatrixLike, y: Sequence[npt.ArrayLike], matrix: KernelMatrix
) -> None:
    """Fit models with the same kernel to the same rows by conjugate gradients.

    Parameters
    ----------
    processes : sequence of ExactGP
    X : rows
    y : sequence of arrays, shape (n,)
        Labels of each model.
    matrix : KernelMatrix
        k(X, X).

    Raises
    ------
    InputError
        As for `ExactGP.fit`, from the first model that fails; the others are then not fitted either.

    Examples
    --------
    >>> from daskrf.kernels import TanimotoMinMax
    >>> X = np.random.default_rng(0).poisson(1.0, (60, 8))
    >>> options = {"solver": "cg", "n_draws": 2, "n_features": 64, "noise_variance": 0.1}
    >>> first, second = (ExactGP(TanimotoMinMax(), **options) for _ in range(2))
    >>> fit_together([first, second], X, [X[:, 0], X[:, 1]], KernelMatrix(TanimotoMinMax(), X))
    >>> alone = ExactGP(TanimotoMinMax(), **options).fit(X, X[:, 1])
    >>> bool(np.allclose(second.predict(X), alone.predict(X), atol=1e-3))
    True
    """

    def fitting(gp: ExactGP, labels: npt.ArrayLike) -> Callable[[Ask], ExactGP]:
        return lambda ask: gp.fit(X, labels, matrix=_Shared(matrix, ask))

    def totals(questions: list[Terms]) -> list[Single]:
        requested = [terms.vectors for terms in questions if isinstance(terms, Products)]
        product = (
            matrix.total(Products(np.hstack(requested))) if requested else None
        )  # in double precision, if one of them is
        ends = iter(np.cumsum([0, *(vectors.shape[1] for vectors in requested)]).tolist())
        start, answers = next(ends), []
        for terms in questions:
            if product is None or not isinstance(terms, Products):
                answers.append(matrix.total(terms))
            else:
                stop = next(ends)
                answers.append(np.ascontiguousarray(product[:, start:stop], terms.vectors.dtype))
                start = stop
        return answers

    in_step([fitting(gp, labels) for gp, labels in zip(processes, y, strict=True)], totals)


class _Shared(KernelMatrix):
    """A kernel matrix whose totals come from `ask` until `forget`; a fitted model computes its own."""

    def __init__(self, matrix: KernelMatrix, ask: Ask) -> None:
        super().__init__(matrix.kernel, matrix.X, tile=matrix.tile, n_threads=matrix.n_threads)
        self._ask: Ask | None = ask

    def __setstate__(self, state: KernelMatrixState) -> None:
        KernelMatrix.__init__(self, **state)
        self._ask = None

    def total(self, terms: Terms) -> Single:
        return super().total(terms) if self._ask is None else self._ask(terms)

    def forget(self) -> None:
        super().forget()
        self._ask = None


def in_step(
    functions: Sequence[Callable[[Callable[[Question], Reply]], Result]],
    answer: Callable[[list[Question]], list[Reply]],
) -> list[Result]:
    """Call functions that ask questions; answer these together whenever each function has asked or returned.

    Only one function runs at a time, in the given order, so nothing depends on the timing of threads.

    Parameters
    ----------
    functions : sequence of callable
        Each is called with a function that takes a question and returns its answer.
    answer : callable
        Takes a list of questions and returns their answers.

    Returns
    -------
    list
        The results of the functions.

    Raises
    ------
    BaseException
        The first error of a function or of `answer`; the other functions are stopped at their questions.

    Examples
    --------
    >>> in_step([lambda ask: ask(1) + ask(2), lambda ask: ask(10)], lambda asks: [sum(asks)] * len(asks))
    [13, 11]
    """
    turns = [_Turn(function) for function in functions]
    try:
        waiting = [turn for turn in turns if turn.go()]
        while waiting:
            for turn, reply in zip(waiting, answer([turn.question for turn in waiting]), strict=True):
                turn.reply = reply
            waiting = [turn for turn in waiting if turn.go()]
    finally:
        for turn in turns:
            turn.stop()
    return [turn.result for turn in turns]


class _Stopped(BaseException):
    """Ends a function that will get no more answers; like KeyboardInterrupt, it is not to be handled."""


class _Turn(Generic[Question, Reply, Result]):
    """A function that runs in a thread of its own, but only while `go` waits for its next question."""

    question: Question
    reply: Reply
    result: Result

    def __init__(self, function: Callable[[Callable[[Question], Reply]], Result]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._ended = self._stop = False
        self._resume, self._others = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go(self) -> bool:
        """Run until the next question, or the end; return whether there is a question."""
        self._resume.release()
        self._others.acquire()
        if self._error is not None:
            raise self._error
        return not self._ended

    def stop(self) -> None:
        """End the function, if it has not ended, and its thread."""
        if not self._ended:
            self._stop = True
            self._resume.release()
        self._thread.join()

    def _run(self) -> None:
        self._resume.acquire()
        try:
            if not self._stop:
                self.result = self._function(self._ask)
        except _Stopped:
            pass
        except BaseException as error:  # raised by `go`, in the thread that waits
            self._error = error
        self._ended = True
        self._others.release()

    def _ask(self, question: Question) -> Reply:
        self.question = question
        self._others.release()
        self._resume.acquire()
        if self._stop:
            raise _Stopped
        return self.reply

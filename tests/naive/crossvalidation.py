"""Cross-validation as textbooks write it: one fit after another, and figures of merit by counting."""

from __future__ import annotations

import itertools

import numpy as np

from tests.naive.gp import kernel_posterior


def minmax(x, z):
    """The Tanimoto (min-max) similarity of two count vectors."""
    return np.minimum(x, z).sum() / np.maximum(x, z).sum()


def similarities(X, Z):
    """All similarities of the rows of X to those of Z."""
    return np.array([[minmax(x, z) for z in Z] for x in X])


def held_out(X, y, folds, parameters):
    """Mean and standard deviation of y for each label, from a process fitted to the other folds.

    `folds` is a list of (known rows, rows to predict), `parameters` mean, signal and noise variance of each.
    """
    mean, std = np.full(len(y), np.nan), np.full(len(y), np.nan)
    for (known, own), (centre, signal, noise) in zip(folds, parameters, strict=True):
        parts = [(known, known), (own, known), (own, own)]
        kernel, cross, new = (similarities(X[a], X[b]) for a, b in parts)
        mean[own], covariance = kernel_posterior(kernel, y[known], cross, new, centre, signal, noise)
        std[own] = np.sqrt(covariance.diagonal() + noise)
    return mean, std


def nearest(X, y, folds):
    """Label and similarity of the most similar known molecule, the mean label of several."""
    label, similarity = np.full(len(y), np.nan), np.full(len(y), np.nan)
    for known, own in folds:
        for i in own:
            values = [minmax(X[i], X[j]) for j in known]
            best = [j for j, value in zip(known, values, strict=True) if value == max(values)]
            label[i], similarity[i] = np.mean(y[best]), max(values)
    return label, similarity


def area_under_curve(positive, predicted):
    """The share of pairs of a positive and a negative that are in the right order, ties by half."""
    pairs = list(itertools.product(predicted[positive], predicted[~positive]))
    return sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)


def top_found(truth, predicted, n_best, selected):
    """The share of the best among the first, for predictions without ties."""
    threshold = sorted(truth, reverse=True)[n_best - 1]
    first = sorted(range(len(truth)), key=lambda i: -predicted[i])[:selected]
    return min(sum(truth[i] >= threshold for i in first), n_best) / n_best

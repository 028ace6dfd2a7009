"""Algorithm 1 of Wacker & Filippone 2022 as it is printed, row by row and centroid by centroid."""

from __future__ import annotations

import itertools
import math

import numpy as np


def farthest_centroids(X, mean, n, threshold):
    """The mean, then the row farthest from all centroids, until it is nearer than the threshold."""
    centroids = [mean]
    while len(centroids) < n:
        distances = [min(math.dist(x, c) for c in centroids) for x in X]
        if max(distances) < threshold or max(distances) == 0.0:
            break
        centroids.append(X[int(np.argmax(distances))])
    return np.array(centroids)


def explicit_features(x, c, length_scale, degree):
    """Equation 4 by distinct monomials: products of the entries of (x - c) / l, weighted by multiplicity."""
    u = (np.asarray(x) - c) / length_scale
    features = []
    for n in range(degree + 1):
        for monomial in itertools.combinations_with_replacement(range(len(u)), n):
            weight = math.prod(math.factorial(monomial.count(k)) for k in set(monomial))
            features.append(math.prod(u[k] for k in monomial) / math.sqrt(weight))
    return math.exp(-(u @ u) / 2) * np.array(features)


def predict(features, X, y, centroids, new, mean, signal_variance, noise):
    """Mean and variance of f at each new row by equation 2, with A of the centroid nearest to it.

    `features(x, c)` are those of row x about centroid c; all rows of X count for every centroid.
    """
    means, variances = [], []
    for x in new:
        c = min(centroids, key=lambda c: math.dist(x, c))
        Phi = math.sqrt(signal_variance) * np.array([features(row, c) for row in X])
        phi = math.sqrt(signal_variance) * features(x, c)
        A = Phi.T @ Phi / noise + np.eye(len(phi))
        means.append(mean + phi @ np.linalg.solve(A, Phi.T @ (y - mean)) / noise)
        variances.append(phi @ np.linalg.solve(A, phi))
    return np.array(means), np.array(variances)


def own_evidence(features, X, y, centroids, mean, signal_variance, noise):
    """Sum over centroids of the log evidence of the rows that are nearest to each."""
    labels = np.array([int(np.argmin([math.dist(x, c) for c in centroids])) for x in X])
    total = 0.0
    for label in np.unique(labels):
        own = labels == label
        Phi = np.array([features(row, centroids[label]) for row in X[own]])
        covariance = signal_variance * Phi @ Phi.T + noise * np.eye(own.sum())
        residual = y[own] - mean
        form = residual @ np.linalg.solve(covariance, residual)
        total -= 0.5 * (form + np.linalg.slogdet(covariance)[1] + own.sum() * math.log(2 * math.pi))
    return total

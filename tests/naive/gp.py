"""Gaussian process regression as textbooks write it: with n x n covariance matrices, from the rows."""

from __future__ import annotations

import itertools
import math

import numpy as np


def log_likelihood(phi, y, mean, signal_variance, noise_variance):
    """log N(y; mean, signal_variance Phi Phi^T + noise_variance I), Rasmussen & Williams 2006, eq. 2.30."""
    covariance = signal_variance * phi @ phi.T + noise_variance * np.eye(len(y))
    residual = y - mean
    sign, log_det = np.linalg.slogdet(covariance)
    assert sign > 0
    form = residual @ np.linalg.solve(covariance, residual)
    return -0.5 * (form + log_det + len(y) * math.log(2 * math.pi))


def posterior(phi, y, phi_new, mean, signal_variance, noise_variance):
    """Mean and covariance of f at new rows, Rasmussen & Williams 2006, eqs. 2.25 and 2.26."""
    covariance = signal_variance * phi @ phi.T + noise_variance * np.eye(len(y))
    cross = signal_variance * phi_new @ phi.T
    gain = np.linalg.solve(covariance, cross.T).T
    return mean + gain @ (y - mean), signal_variance * phi_new @ phi_new.T - gain @ cross.T


def conjugate_gradients(gram, right, ratio):
    """(gram + ratio I)^-1 right by conjugate gradients, preconditioned by the diagonal, column by column."""
    solutions = np.zeros_like(right)
    diagonal = gram.diagonal() + ratio
    for column, b in enumerate(right.T):
        x, residual = solutions[:, column], b.copy()
        scaled = residual / diagonal
        direction, size = scaled.copy(), residual @ scaled
        while np.linalg.norm(residual) > 1e-12 * np.linalg.norm(b):
            image = gram @ direction + ratio * direction
            step = size / (direction @ image)
            x += step * direction
            residual -= step * image
            scaled = residual / diagonal
            before, size = size, residual @ scaled
            direction = scaled + size / before * direction
    return solutions


def conditional_log_density(phi, y, held, rest, mean, signal_variance, noise_variance):
    """log p(y[held] | y[rest]) of observations, from the posterior at the held rows."""
    expected, covariance = posterior(phi[rest], y[rest], phi[held], mean, signal_variance, noise_variance)
    covariance = covariance + noise_variance * np.eye(len(held))
    residual = y[held] - expected
    form = residual @ np.linalg.solve(covariance, residual)
    return -0.5 * (form + np.linalg.slogdet(covariance)[1] + len(held) * math.log(2 * math.pi))


def best_mean(phi, y, signal_variance, noise_variance):
    """Generalized least squares estimate of the mean."""
    covariance = signal_variance * phi @ phi.T + noise_variance * np.eye(len(y))
    whitened = np.linalg.solve(covariance, np.ones(len(y)))
    return float(whitened @ y / whitened.sum())


def signs(bits, n_components):
    """+1/-1 features of packed bits, one bit at a time."""
    out = np.empty((len(bits), n_components))
    for i, j in itertools.product(range(len(bits)), range(n_components)):
        out[i, j] = -1.0 if (int(bits[i, j // 8]) >> (j % 8)) & 1 else 1.0
    return out


def integer_sums(bits, y, n_components, exponents):
    """Gram, Phi^T y, sum of y and Y^T Y of fixed-point targets, in Python integers."""
    phi = [[int(v) for v in row] for row in signs(bits, n_components)]
    fixed = [[round(float(v) * 2.0 ** int(e)) for v, e in zip(row, exponents, strict=True)] for row in y]
    m, t = range(n_components), range(len(exponents))
    gram = [[sum(r[j] * r[k] for r in phi) if j <= k else 0 for k in m] for j in m]
    phi_y = [[sum(r[j] * f[k] for r, f in zip(phi, fixed, strict=True)) for k in t] for j in m]
    yy = [[sum(f[j] * f[k] for f in fixed) for k in t] for j in t]
    return gram, phi_y, [sum(f[k] for f in fixed) for k in t], yy


def top_k(rows, k):
    """The best k of (score, row) pairs: larger scores first, then lower rows; a row counts once."""
    best = {}
    for score, row in rows:
        best[row] = max(score, best.get(row, -math.inf))
    return sorted(((score, row) for row, score in best.items()), key=lambda p: (-p[0], p[1]))[:k]


def kernel_log_likelihood(kernel, y, mean, signal_variance, noise_variance):
    """log N(y; mean, signal_variance K + noise_variance I), Rasmussen & Williams 2006, eq. 2.30."""
    covariance = signal_variance * kernel + noise_variance * np.eye(len(y))
    residual = y - mean
    sign, log_det = np.linalg.slogdet(covariance)
    assert sign > 0
    form = residual @ np.linalg.solve(covariance, residual)
    return -0.5 * (form + log_det + len(y) * math.log(2 * math.pi))


def kernel_log_posterior(matrix, y, mean, signal_variance, noise_variance):
    """Add the log of a prior, exp(-0.003 v / noise_variance), where v is the variance of f over the rows."""
    n = len(y)
    centre = np.eye(n) - np.ones((n, n)) / n
    spread = signal_variance * np.trace(centre @ matrix @ centre) / n
    value = kernel_log_likelihood(matrix, y, mean, signal_variance, noise_variance)
    return value - 0.003 * spread / noise_variance


def kernel_posterior(kernel, y, cross, new, mean, signal_variance, noise_variance):
    """Mean and covariance of f from K of the rows, of new rows with them and of new rows, eqs. 2.25, 2.26."""
    covariance = signal_variance * kernel + noise_variance * np.eye(len(y))
    gain = np.linalg.solve(covariance, signal_variance * cross.T).T
    return mean + gain @ (y - mean), signal_variance * new - gain @ (signal_variance * cross.T)


def projected(k_zz, k_zx, k_zs):
    """Q(X, X), Q(S, X) and Q(S, S) with Q(A, B) = k(A, Z) K_ZZ^-1 k(Z, B)."""
    weights_x, weights_s = np.linalg.solve(k_zz, k_zx), np.linalg.solve(k_zz, k_zs)
    return k_zx.T @ weights_x, k_zs.T @ weights_x, k_zs.T @ weights_s


def projected_log_likelihood(k_zz, k_zx, y, mean, signal_variance, noise_variance):
    """log N(y; mean, signal_variance Q + noise_variance I), Quinonero-Candela & Rasmussen 2005."""
    q = projected(k_zz, k_zx, k_zx)[0]
    covariance = signal_variance * q + noise_variance * np.eye(len(y))
    residual = y - mean
    form = residual @ np.linalg.solve(covariance, residual)
    return -0.5 * (form + np.linalg.slogdet(covariance)[1] + len(y) * math.log(2 * math.pi))


def titsias_bound(k_zz, k_zx, diagonal, y, mean, signal_variance, noise_variance):
    """Titsias 2009, eq. 9: log N(y; mean, Q + noise I) - tr(K - Q) / (2 noise), all kernels scaled."""
    q = projected(k_zz, k_zx, k_zx)[0]
    left_out = signal_variance * (np.sum(diagonal) - np.trace(q))
    return projected_log_likelihood(k_zz, k_zx, y, mean, signal_variance, noise_variance) - left_out / (
        2 * noise_variance
    )


def projected_posterior(k_zz, k_zx, k_zs, k_ss, y, mean, signal_variance, noise_variance):
    """Mean and covariance of f at new rows S, Quinonero-Candela & Rasmussen 2005, eq. 20."""
    q_xx, q_sx, q_ss = projected(k_zz, k_zx, k_zs)
    covariance = signal_variance * q_xx + noise_variance * np.eye(len(y))
    gain = np.linalg.solve(covariance, signal_variance * q_sx.T).T
    inducing = signal_variance * q_ss - gain @ (signal_variance * q_sx.T)
    return mean + gain @ (y - mean), signal_variance * (k_ss - q_ss) + inducing


def left_out(phi, diagonal, signal_variance, noise_variance):
    """Mean of k(x, x) - |phi|^2 over the labelled rows, and the variance of f for each unit of it.

    The noise of n labels has n - tr(H) degrees of freedom, H the matrix that smooths them; as much of it as
    there is may be what the features leave out.
    """
    n = len(phi)
    smoother = (
        signal_variance
        * phi
        @ phi.T
        @ np.linalg.inv(signal_variance * phi @ phi.T + noise_variance * np.eye(n))
    )
    mean_left = (diagonal - np.square(phi).sum(axis=1)).mean()
    return mean_left, min(signal_variance, noise_variance / (mean_left * (n - np.trace(smoother)) / n))


def posterior_of_targets(gram, labels, new, mean, covariance, noise_variance):
    """Mean, covariance and log evidence of several targets, Bonilla, Chai & Williams 2008, entry by entry.

    `gram` is k between all rows, `labels` are (row, target, value), and `new` are (row, target).
    """

    def between(one, other):
        return np.array([[covariance[s][t] * gram[i, j] for j, t, *_ in other] for i, s, *_ in one]).reshape(
            len(one), len(other)
        )

    C = between(labels, labels) + np.diag([noise_variance[t] for _, t, _ in labels])
    residual = np.array([value - mean[t] for _, t, value in labels])
    gain = np.linalg.solve(C, between(labels, new)).T
    expected = np.array([mean[t] for _, t in new]) + gain @ residual
    form = residual @ np.linalg.solve(C, residual)
    evidence = -0.5 * (form + np.linalg.slogdet(C)[1] + len(residual) * math.log(2 * math.pi))
    return expected, between(new, new) - gain @ between(labels, new), evidence

"""Gaussian process regression with labels of which only a limit is known, by a Gibbs sampler."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import multivariate_normal, truncnorm


def log_evidence(covariance, y, side, mean):
    """log of the density of the measured labels, times the probability of all sides given them."""
    measured, hidden = side == 0, side != 0
    residual = y[measured] - mean
    inner = covariance[np.ix_(measured, measured)]
    gain = np.linalg.solve(inner, covariance[np.ix_(measured, hidden)]).T
    value = -0.5 * (
        residual @ np.linalg.solve(inner, residual)
        + np.linalg.slogdet(inner)[1]
        + len(residual) * math.log(2 * math.pi)
    )
    centre = mean + gain @ residual
    spread = covariance[np.ix_(hidden, hidden)] - gain @ covariance[np.ix_(measured, hidden)]
    signs = side[hidden]
    upper = signs * (centre - y[hidden])
    probability = multivariate_normal.cdf(
        upper, np.zeros(len(upper)), signs[:, None] * spread * signs, maxpts=200_000, abseps=1e-7
    )
    return value + math.log(probability)


def hidden_measurements(covariance, y, side, mean, rng, *, n_samples, n_first=500):
    """Samples of all measurements, shape (n_samples, n): one hidden one after the other, given the rest."""
    precision = np.linalg.inv(covariance)
    values = np.where(side == 0, y, y + side * 0.1)
    samples = np.empty((n_samples, len(y)))
    for sweep in range(-n_first, n_samples):
        for i in np.flatnonzero(side):
            std = 1 / math.sqrt(precision[i, i])
            centre = values[i] - precision[i] @ (values - mean) / precision[i, i]
            end = (y[i] - centre) / std
            low, high = (end, np.inf) if side[i] > 0 else (-np.inf, end)
            values[i] = centre + std * truncnorm.rvs(low, high, random_state=rng)
        if sweep >= 0:
            samples[sweep] = values
    return samples


def predictions(kernel, kernel_new, diagonal_new, y, side, hyperparameters, rng, *, n_samples):
    """Mean and variance of f at new rows: averages over the hidden measurements."""
    mean, signal_variance, noise_variance = hyperparameters
    covariance = signal_variance * kernel + noise_variance * np.eye(len(y))
    samples = hidden_measurements(covariance, y, side, mean, rng, n_samples=n_samples)
    gain = np.linalg.solve(covariance, signal_variance * kernel_new.T).T
    means = mean + (samples - mean) @ gain.T
    explained = np.einsum("ij,ij->i", gain, signal_variance * kernel_new)
    return means.mean(0), signal_variance * diagonal_new - explained + means.var(0)

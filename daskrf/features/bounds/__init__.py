"""Bounds on the error of features, by the theorems of the papers: Nystroem, Fastfood, Maclaurin, truncation.

They hold for every input that meets their assumptions, so most of them are loose. They show how an error
falls with the number of features; to learn the error itself, take a sample.
"""

from daskrf.features.bounds.fastfooderrors import (
    cosine_variance,
    fastfood_error,
    fastfood_variance,
)
from daskrf.features.bounds.maclaurinerrors import (
    SeriesConstants,
    composition_constants,
    largest_error_odds,
    product_error,
    projection_constants,
)
from daskrf.features.bounds.nystromerrors import (
    Extremes,
    excess_2_norm,
    excess_frobenius,
    excess_rms,
    expected_product_error,
    expected_residual,
    extremes_of,
)
from daskrf.features.bounds.truncationerrors import truncated_size, truncation_error

__all__ = [
    "Extremes",
    "SeriesConstants",
    "composition_constants",
    "cosine_variance",
    "excess_2_norm",
    "excess_frobenius",
    "excess_rms",
    "expected_product_error",
    "expected_residual",
    "extremes_of",
    "fastfood_error",
    "fastfood_variance",
    "largest_error_odds",
    "product_error",
    "projection_constants",
    "truncated_size",
    "truncation_error",
]

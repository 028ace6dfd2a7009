"""Likelihoods that are not Gaussian, and expectation propagation for them."""

"""Gaussian processes: of random features, exact, sparse, local, and of several targets."""

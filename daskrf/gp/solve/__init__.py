"""Solving the linear equations: factors, conjugate gradients and their preconditioners, rounding errors."""

"""Sums over rows: Gram matrices and products with labels, by folds if requested."""

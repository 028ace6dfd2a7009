"""What is summed over rows: Gram matrices and products with labels, by folds where that is asked."""

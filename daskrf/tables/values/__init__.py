"""What the cells and names of columns say: numbers, units, scales, relations, dates."""

"""Stores of partitions: the plan, the data and the commit records of rows in Zarr."""

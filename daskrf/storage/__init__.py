"""Stores: the plan, the data and the commit records of partitioned results, models and labels."""

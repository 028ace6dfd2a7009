"""Fingerprints: which kinds there are, and counting them."""

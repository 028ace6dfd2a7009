"""Acquisition rules: how good it would be to measure a molecule next. One file a rule, found by its name."""

from daskrf.acquisition.base import Acquisition, acquisition_for, rules

__all__ = ["Acquisition", "acquisition_for", "rules"]

"""Acquisition rules: how good it would be to measure a molecule next. One file a rule, found by its name."""

from daskrf.acquisition.rule import Acquisition, acquisition_for, parameters_of_rules, rules

__all__ = ["Acquisition", "acquisition_for", "parameters_of_rules", "rules"]

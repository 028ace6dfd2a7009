"""How good predictions are: cross-validation, labels left out, calibration, simple baselines."""

"""The quality of predictions: cross-validation, labels left out, calibration, simple baselines."""

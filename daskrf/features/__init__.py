"""Feature maps, scikit-learn style: one file a family."""

from daskrf.features.base import FeatureMap, from_state
from daskrf.features.compositional import CompositionalTanimotoFeatures
from daskrf.features.dotproduct import TanimotoDotProductFeatures
from daskrf.features.fastfood import FastfoodFeatures
from daskrf.features.fourier import RandomFourierFeatures
from daskrf.features.landmarks import LandmarkFeatures
from daskrf.features.minmax import TanimotoMinMaxFeatures

__all__ = [
    "CompositionalTanimotoFeatures",
    "FastfoodFeatures",
    "FeatureMap",
    "LandmarkFeatures",
    "RandomFourierFeatures",
    "TanimotoDotProductFeatures",
    "TanimotoMinMaxFeatures",
    "from_state",
]

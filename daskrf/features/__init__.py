"""Feature maps, scikit-learn style: one file a family."""

from daskrf.features.base import FeatureMap, from_state
from daskrf.features.composition import CompositionFeatures
from daskrf.features.compositional import CompositionalTanimotoFeatures
from daskrf.features.dotproduct import TanimotoDotProductFeatures
from daskrf.features.fastfood import FastfoodFeatures
from daskrf.features.fourier import RandomFourierFeatures
from daskrf.features.gaussianmaclaurin import GaussianMaclaurinFeatures
from daskrf.features.harmonics import FastfoodDotProductFeatures
from daskrf.features.landmarks import LandmarkFeatures
from daskrf.features.localgaussian import LocalGaussianFeatures
from daskrf.features.maclaurin import RandomMaclaurinFeatures
from daskrf.features.minmax import TanimotoMinMaxFeatures
from daskrf.features.nystrom import NystromFeatures
from daskrf.features.polynomial import PolynomialSketch
from daskrf.features.scissors import SCISSORS
from daskrf.features.variances import sketch_variance

__all__ = [
    "SCISSORS",
    "CompositionFeatures",
    "CompositionalTanimotoFeatures",
    "FastfoodDotProductFeatures",
    "FastfoodFeatures",
    "FeatureMap",
    "GaussianMaclaurinFeatures",
    "LandmarkFeatures",
    "LocalGaussianFeatures",
    "NystromFeatures",
    "PolynomialSketch",
    "RandomFourierFeatures",
    "RandomMaclaurinFeatures",
    "TanimotoDotProductFeatures",
    "TanimotoMinMaxFeatures",
    "from_state",
    "sketch_variance",
]

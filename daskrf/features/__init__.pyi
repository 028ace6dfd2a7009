from daskrf.features.composed import CompositionFeatures as CompositionFeatures
from daskrf.features.fastfood import FastfoodFeatures as FastfoodFeatures
from daskrf.features.featuremap import FeatureMap as FeatureMap
from daskrf.features.featuremap import default_map as default_map
from daskrf.features.featuremap import from_state as from_state
from daskrf.features.featuremap import known_maps as known_maps
from daskrf.features.foldedfeatures import FoldedFeatures as FoldedFeatures
from daskrf.features.fourier import RandomFourierFeatures as RandomFourierFeatures
from daskrf.features.gaussianmaclaurin import GaussianMaclaurinFeatures as GaussianMaclaurinFeatures
from daskrf.features.harmonics import FastfoodDotProductFeatures as FastfoodDotProductFeatures
from daskrf.features.landmarks import LandmarkFeatures as LandmarkFeatures
from daskrf.features.localgaussian import LocalGaussianFeatures as LocalGaussianFeatures
from daskrf.features.maclaurin import RandomMaclaurinFeatures as RandomMaclaurinFeatures
from daskrf.features.meanfeatures import MeanFeatures as MeanFeatures
from daskrf.features.minmax import TanimotoMinMaxFeatures as TanimotoMinMaxFeatures
from daskrf.features.nystrom import NystromFeatures as NystromFeatures
from daskrf.features.polynomial import PolynomialSketch as PolynomialSketch
from daskrf.features.scissors import SCISSORS as SCISSORS
from daskrf.features.tanimotodot import TanimotoDotProductFeatures as TanimotoDotProductFeatures
from daskrf.features.variances import sketch_variance as sketch_variance

__all__ = [
    "SCISSORS",
    "CompositionFeatures",
    "FastfoodDotProductFeatures",
    "FastfoodFeatures",
    "FeatureMap",
    "FoldedFeatures",
    "GaussianMaclaurinFeatures",
    "LandmarkFeatures",
    "LocalGaussianFeatures",
    "MeanFeatures",
    "NystromFeatures",
    "PolynomialSketch",
    "RandomFourierFeatures",
    "RandomMaclaurinFeatures",
    "TanimotoDotProductFeatures",
    "TanimotoMinMaxFeatures",
]

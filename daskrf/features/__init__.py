"""Feature maps, scikit-learn style: one file a family, found without a list."""

from daskrf.features.featuremap import FeatureMap as FeatureMap
from daskrf.features.featuremap import default_map as default_map
from daskrf.features.featuremap import from_state as from_state
from daskrf.features.featuremap import known_maps as known_maps
from daskrf.features.foldedfeatures import FoldedFeatures as FoldedFeatures
from daskrf.features.scissors import SCISSORS as SCISSORS
from daskrf.features.variances import sketch_variance as sketch_variance

globals().update({cls.__name__: cls for cls in known_maps()})

__all__ = ["SCISSORS", "FeatureMap", "FoldedFeatures", *sorted(cls.__name__ for cls in known_maps())]

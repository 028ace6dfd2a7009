"""Feature maps, scikit-learn style: one file a family."""

from daskrf.features.base import FeatureMap, from_state
from daskrf.features.minmax import TanimotoMinMaxFeatures

__all__ = ["FeatureMap", "TanimotoMinMaxFeatures", "from_state"]

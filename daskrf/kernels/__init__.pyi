from daskrf.kernels.composition import Composition as Composition
from daskrf.kernels.dotproduct import TanimotoDotProduct as TanimotoDotProduct
from daskrf.kernels.folding import Folded as Folded
from daskrf.kernels.kernel import Kernel as Kernel
from daskrf.kernels.kernel import from_state as from_state
from daskrf.kernels.metric import MetricGaussian as MetricGaussian
from daskrf.kernels.powerseries import DotProduct as DotProduct
from daskrf.kernels.powerseries import DotProductKernel as DotProductKernel
from daskrf.kernels.powerseries import Exponential as Exponential
from daskrf.kernels.powerseries import Polynomial as Polynomial
from daskrf.kernels.powerseries import Ratio as Ratio
from daskrf.kernels.powerseries import residual_bound as residual_bound
from daskrf.kernels.powerseries import truncation_degree as truncation_degree
from daskrf.kernels.radial import Gaussian as Gaussian
from daskrf.kernels.radial import Matern as Matern
from daskrf.kernels.radial import RadialKernel as RadialKernel
from daskrf.kernels.radial import RadialSpectrum as RadialSpectrum
from daskrf.kernels.radial import UnitBalls as UnitBalls
from daskrf.kernels.tanimoto import Intersection as Intersection
from daskrf.kernels.tanimoto import TanimotoMinMax as TanimotoMinMax
from daskrf.kernels.truncated import TruncatedGaussian as TruncatedGaussian
from daskrf.kernels.weightedmean import Mean as Mean

__all__ = [
    "Composition",
    "DotProduct",
    "DotProductKernel",
    "Exponential",
    "Folded",
    "Gaussian",
    "Intersection",
    "Kernel",
    "Matern",
    "Mean",
    "MetricGaussian",
    "Polynomial",
    "RadialKernel",
    "RadialSpectrum",
    "Ratio",
    "TanimotoDotProduct",
    "TanimotoMinMax",
    "TruncatedGaussian",
    "UnitBalls",
    "from_state",
    "residual_bound",
    "truncation_degree",
]

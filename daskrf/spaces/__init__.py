"""Make-on-demand spaces, whose products are never listed: tables, synthons, fingerprints as sums."""

from daskrf.spaces.comparison import Comparison, compare
from daskrf.spaces.cut import CutSpace, Entries, cut, n_cuts
from daskrf.spaces.reactions import Reaction
from daskrf.spaces.spacetables import Space, read_space

__all__ = ["Comparison", "CutSpace", "Entries", "Reaction", "Space", "compare", "cut", "n_cuts", "read_space"]

"""Make-on-demand spaces, whose products are never enumerated: tables, synthons, fingerprints as sums."""

from daskrf.spaces.attachments import Coupling
from daskrf.spaces.comparison import Comparison, compare
from daskrf.spaces.cut import CutSpace, Entries, cut, n_cuts
from daskrf.spaces.reactions import Reaction
from daskrf.spaces.spacefiles import is_space, read_space, space_among
from daskrf.spaces.spacetables import Space

__all__ = [
    "Comparison",
    "Coupling",
    "CutSpace",
    "Entries",
    "Reaction",
    "Space",
    "compare",
    "cut",
    "is_space",
    "n_cuts",
    "read_space",
    "space_among",
]

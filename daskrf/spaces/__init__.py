"""Make-on-demand spaces, whose products are never listed: tables, synthons, fingerprints as sums."""

from daskrf.spaces.attachments import Coupling
from daskrf.spaces.comparison import Comparison, compare
from daskrf.spaces.cut import CutSpace, Entries, cut
from daskrf.spaces.reactions import Reaction
from daskrf.spaces.sources import is_space, read_space
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
    "read_space",
]

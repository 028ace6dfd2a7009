"""What is said of every feature map: one line of the table of all maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["SYMBOLS", "MapFacts"]

SYMBOLS = """\
M features, d columns, z non-zeros of a row, N factors of a feature (the degree, or its mean), K landmarks,
C centroids, L length scale. Bits take M/8 bytes a row, floats 4 M. Cost: operations a row, up to a constant.
Holds: bytes of a process that transforms, beside those of the rows at work. Learns: what goes from the
library into the state of the map. cos: x.y of rows of length 1. inner: what the map costs that the
composition is made of."""


@dataclass(frozen=True)
class MapFacts:
    """A feature map in words, for a reader who chooses one.

    Attributes
    ----------
    name : str
        What it is called on the command line, by ``--map``.
    kernel : str
        The kernel, or the family of kernels.
    rows : str
        Which input it takes.
    features : "bits", "floats" or "bits or floats"
        What a feature is; the first of two is the default.
    cost : str
        Of a row, in operations of one kind: what it grows with. See `SYMBOLS`.
    holds : str
        Bytes that a process holds for the map.
    learns : str
        What `fit` takes from the library into the state of the map; "nothing" else.
    reference : str
        Papers and sections.
    use : str
        When to take it.
    example : str
        Options of the command line that are worth trying, besides ``--map``.
    is_default : bool
        Whether it is the map that is taken where none is named; one map is.

    Examples
    --------
    >>> facts = MapFacts("a", "x.y", "counts", "bits or floats", "z M", "8 M", "nothing", "A 2000", "always")
    >>> facts.bytes_a_row
    'M/8 or 4 M'
    """

    name: str
    kernel: str
    rows: str
    features: Literal["bits", "floats", "bits or floats"]
    cost: str
    holds: str
    learns: str
    reference: str
    use: str
    example: str = ""
    is_default: bool = False

    @property
    def bytes_a_row(self) -> str:
        """Bytes of the features of a row: bits are packed, floats are float32."""
        return " or ".join({"bits": "M/8", "floats": "4 M"}[kind] for kind in self.features.split(" or "))

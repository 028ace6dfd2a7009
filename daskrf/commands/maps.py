"""The table of all feature maps."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass

from daskrf.errors import InputError
from daskrf.features.featuremap import SYMBOLS, FeatureMap, known_maps
from daskrf.parameters import Command
from daskrf.report.tabulation import text_table

CLI = Command("daskrf maps landmarks", step=8)


_WIDTH = 80  # characters of a line


@dataclass(frozen=True)
class MapTable:
    """All feature maps; ``str()`` gives the text for people.

    Attributes
    ----------
    maps : tuple of classes
    named : bool
        Whether one map was asked for by name.
    """

    maps: tuple[type[FeatureMap], ...]
    named: bool = False

    def __str__(self) -> str:
        header = ["map", "kernel", "input", "features"]
        facts = [cls.facts for cls in self.maps]
        rows = [[f.name, f.kernel, f.rows, f.features.replace(" or ", "/")] for f in facts]
        first, *lines = text_table(header, rows).splitlines()
        text = [first]
        for cls, line in zip(self.maps, lines, strict=True):
            each, name = cls.facts, f"{cls.__name__}{', the default' if cls.facts.is_default else ''}"
            more = f"costs {each.cost} a row; holds {each.holds}; learns {each.learns}; {each.reference}"
            details = textwrap.fill(f"{name}; {more}", _WIDTH, initial_indent="  ", subsequent_indent="  ")
            text += [line.rstrip(), details]
        return "\n".join([*text, "", textwrap.fill(SYMBOLS, _WIDTH)])

    def to_markdown(self) -> str:
        """Return the table in Markdown, as docs/maps.md has it: what each map is, and when to take it."""
        lines = ["| `--map` | class | kernel | features | bytes a row | when |", "|---" * 6 + "|"]
        for cls in self.maps:
            facts = cls.facts
            cells = (facts.kernel.replace("|", "\\|"), facts.features, facts.bytes_a_row, facts.use)
            lines.append(f"| `{facts.name}` | `{cls.__name__}` | {' | '.join(cells)} |")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return a list with one object for each map: its class, and the attributes of `MapFacts`."""
        entries = [
            {"class": cls.__name__, **asdict(cls.facts), "bytes_a_row": cls.facts.bytes_a_row}
            for cls in self.maps
        ]
        return json.dumps({"maps": entries}, indent=2)


def maps(name: str | None = None) -> MapTable:
    """List every feature map, or describe one.

    The list shows the name that --map takes, the kernel that the features approximate, the input, what a row
    costs, what a map holds and learns, and the paper. With a name, it also shows the map's own options and an
    example. In Python, maps of your own are listed if their class has `facts`.

    Parameters
    ----------
    name : str, optional
        The map to describe. Default: list all.

    Raises
    ------
    InputError
        If there is no such map.

    Examples
    --------
    >>> print(str(maps()).splitlines()[0].rstrip())  # doctest: +NORMALIZE_WHITESPACE
    map  kernel  input  features
    """
    by_name = {cls.facts.name: cls for cls in known_maps()}
    if name is None:
        return MapTable(tuple(by_name.values()))
    if name not in by_name:
        raise InputError(f"{name!r} is not one of the maps {', '.join(by_name)}.")
    return MapTable((by_name[name],), named=True)

"""The table of all maps: no map is forgotten, and what it says agrees with the classes."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import daskrf
from daskrf.cli.app import run
from daskrf.commands.maps import MapTable
from daskrf.features import FeatureMap
from daskrf.features.featuremap import MapFacts, known_maps
from daskrf.parameters import parameters_of
from tests.features.maps import MAPS

MAP_CLASSES = [cls for cls in known_maps() if cls.__module__.startswith("daskrf.")]


@pytest.mark.parametrize("cls", MAP_CLASSES, ids=lambda cls: cls.__name__)
def test_every_map_has_a_complete_line(cls: type[FeatureMap]) -> None:
    assert isinstance(cls.__dict__.get("facts"), MapFacts), f"{cls.__name__} needs its own `facts`"
    facts = cls.facts
    for field in fields(facts):
        value = getattr(facts, field.name)
        assert isinstance(value, bool) or value.strip(), field.name
    assert re.search(r"[12]\d\d\d", facts.reference), "a reference has a year"


@pytest.mark.parametrize("name", sorted(MAPS))
def test_the_line_agrees_with_the_class(name: str) -> None:
    feature_map = MAPS[name].make()
    facts = type(feature_map).facts
    assert ("bits" if feature_map.one_bit else "floats") in facts.features.split(" or ")
    if feature_map.learns_from != "nothing":
        assert facts.learns != "nothing"


def test_the_table_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maps"]) == 0
    shown = capsys.readouterr().out
    assert shown.rstrip() == str(daskrf.maps())
    assert max(map(len, shown.splitlines())) <= 80
    lines = shown.splitlines()
    for cls in MAP_CLASSES:
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{cls.facts.name} "))
        text = " ".join(line.strip() for line in lines[at + 1 : at + 4])
        assert text.startswith(f"{cls.__name__}{', the default' if cls.facts.is_default else ''}; costs ")
        assert f"learns {cls.facts.learns}" in text


def test_json_has_every_fact(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maps", "--json"]) == 0
    maps = json.loads(capsys.readouterr().out)["maps"]
    assert {line["class"] for line in maps} == {cls.__name__ for cls in MAP_CLASSES}
    for line in maps:
        assert {field.name for field in fields(MapFacts)} | {"class", "bytes_a_row"} == set(line)


@pytest.mark.parametrize("cls", MAP_CLASSES, ids=lambda cls: cls.__name__)
def test_the_page_of_a_map_has_its_options(cls: type[FeatureMap], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maps", cls.facts.name]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{cls.facts.name}: {cls.__name__}")
    for parameter in parameters_of(cls):
        assert parameter.help, f"the docstring of {cls.__name__} says nothing of {parameter.name}"
        flag = {"n_components": "-M", "radius": "--map-radius"}.get(parameter.name)
        assert re.search(rf"^  {flag or '--' + parameter.name.replace('_', '-')}\b", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 80
    assert run(["maps", cls.facts.name, "--json"]) == 0
    assert [line["name"] for line in json.loads(capsys.readouterr().out)["maps"]] == [cls.facts.name]


def test_a_map_of_somebody_else_is_told_of_if_it_has_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(FeatureMap):
        """A map without facts."""

    assert Silent not in daskrf.maps().maps
    facts = MapFacts("silent", "k", "reals", "floats", "z M", "M", "nothing", "Nobody 2000", "never")
    monkeypatch.setattr(Silent, "facts", facts, raising=False)
    assert Silent in daskrf.maps().maps


BEGIN = "<!-- maps: made by python -m tests.report.test_maptable -->\n"
END = "<!-- end of maps -->"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "maps.md"


def written() -> str:
    """Return the page on maps with the table that is made from their classes."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{begin}{MapTable(tuple(MAP_CLASSES)).to_markdown()}\n{rest[rest.index(END) :]}"


def test_the_table_in_the_documentation_is_made_from_the_classes() -> None:
    assert PAGE.read_text() == written(), "run python -m tests.report.test_maptable"


if __name__ == "__main__":
    PAGE.write_text(written())
    print(PAGE, file=sys.stderr)

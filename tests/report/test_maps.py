"""The table of all maps: no map is forgotten, and what it says agrees with the classes."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

import daskrf
from daskrf.cli.app import run
from daskrf.cli.commands import COMMANDS
from daskrf.features import FeatureMap
from daskrf.features.base import known_maps
from daskrf.features.facts import MapFacts
from tests.features.maps import MAPS

KNOWN = [cls for cls in known_maps() if cls.__module__.startswith("daskrf.")]


@pytest.mark.parametrize("cls", KNOWN, ids=lambda cls: cls.__name__)
def test_every_map_has_a_complete_line(cls: type[FeatureMap]) -> None:
    assert isinstance(cls.__dict__.get("facts"), MapFacts), f"{cls.__name__} needs its own `facts`"
    facts = cls.facts
    for field in fields(facts):
        assert getattr(facts, field.name).strip(), field.name
    assert re.search(r"[12]\d\d\d", facts.reference), "a reference has a year"


@pytest.mark.parametrize("name", sorted(MAPS))
def test_the_line_agrees_with_the_class(name: str) -> None:
    feature_map = MAPS[name].make()
    facts = type(feature_map).facts
    assert ("bits" if feature_map.one_bit else "floats") in facts.features.split(" or ")
    if feature_map.learns_from != "nothing":
        assert facts.learns != "nothing"


def test_the_names_are_those_of_the_command_line() -> None:
    for command in COMMANDS:
        for parameter in command.params:
            if parameter.name == "map":
                assert isinstance(parameter.type, click.Choice)
                assert sorted(parameter.type.choices) == sorted(cls.facts.name for cls in KNOWN)


def test_every_map_is_public() -> None:
    assert {cls.__name__ for cls in KNOWN} <= set(daskrf.__all__)


def test_the_table_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maps"]) == 0
    shown = capsys.readouterr().out
    assert shown.rstrip() == str(daskrf.maps())
    assert max(map(len, shown.splitlines())) <= 110
    for cls in KNOWN:
        first, second = (shown.splitlines()[i:] for i in (0, 1))
        at = next(i for i, line in enumerate(first) if line.startswith(f"{cls.facts.name} "))
        assert second[at].startswith(f"  {cls.__name__}; learns {cls.facts.learns}")


def test_json_has_every_fact(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maps", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["maps"]
    assert {line["class"] for line in found} == {cls.__name__ for cls in KNOWN}
    for line in found:
        assert {field.name for field in fields(MapFacts)} | {"class", "bytes_a_row"} == set(line)


def test_the_page_of_maps_has_every_map() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "maps.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    for cls in KNOWN:
        own = [row for row in rows if re.match(rf"\| `{cls.facts.name}[ `]", row[0])]
        assert any(f"`{cls.__name__}`" in row[1] for row in own), cls.facts.name


def test_a_map_of_somebody_else_is_told_of_if_it_has_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(FeatureMap):
        """A map without facts."""

    monkeypatch.setattr("daskrf.report.maps.known_maps", lambda: [*KNOWN, Silent])
    assert set(daskrf.maps().maps) == set(KNOWN)
    Silent.facts = MapFacts("silent", "k", "reals", "floats", "z M", "M", "nothing", "Nobody 2000")
    assert Silent in daskrf.maps().maps

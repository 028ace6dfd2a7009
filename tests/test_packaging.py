"""What a release is made of: versions and dependencies that are written twice agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import daskrf

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
RECIPE = yaml.safe_load((REPOSITORY / ".conda" / "recipe.yaml").read_text())
# Packages of conda-forge that are called otherwise there, or have less in them.
IN_CONDA = {"dask": "dask-core", "matplotlib": "matplotlib-base"}


def test_the_conda_recipe_has_the_version_and_the_dependencies_of_the_package() -> None:
    needed = [re.fullmatch(r"([\w-]+)(>=[\d.]+)", line) for line in PROJECT["project"]["dependencies"]]
    lines = [f"{IN_CONDA.get(match[1], match[1])} {match[2]}" for match in needed if match]
    assert len(lines) == len(needed)
    assert RECIPE["requirements"]["run"][1:] == lines
    assert RECIPE["context"]["version"] == daskrf.__version__
    commands = [f"{name} = {target}" for name, target in PROJECT["project"]["scripts"].items()]
    assert RECIPE["build"]["python"]["entry_points"] == commands


def test_who_installs_the_tests_has_every_optional_package() -> None:
    """Else the README's second command skips or fails what a user's own installation can do."""
    extras = PROJECT["project"]["optional-dependencies"]
    users = extras.keys() - {"test", "docs", "dev"}
    assert users
    assert {line for name in users for line in extras[name]} <= set(extras["test"])


def test_files_that_a_wheel_shares_are_there() -> None:
    shared = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    files = {
        f"cluster/{path.name}"
        for kind in ("yaml", "sbatch")
        for path in (REPOSITORY / "cluster").glob(f"*.{kind}")
    }
    assert set(shared) == files


@pytest.mark.parametrize("kind", ["workflows", "ISSUE_TEMPLATE"])
def test_forms_and_workflows_are_yaml(kind: str) -> None:
    files = sorted((REPOSITORY / ".github" / kind).glob("*.yml"))
    assert len(files) >= 3
    for path in files:
        assert isinstance(yaml.safe_load(path.read_text()), dict)

"""The commands, one file each: a function named like the file, and `CLI`, what its signature cannot say."""

from __future__ import annotations

import ast
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from daskrf.parameters import Command, Option

__all__ = ["READING", "public", "summaries"]

READING = Option(section="Reading the files")
"""For an option that applies only to SMILES files."""


def public(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function of a command as Python calls it.

    It also takes data in memory, checks the client, and its messages name arguments beside options. The
    arguments `shard` and `prepare` of version 0.1 still work.
    """
    from daskrf.errors import DaskrfError
    from daskrf.jobs.shards import current_share, has_shards, sharing
    from daskrf.report.pythonwords import in_python
    from daskrf.sources.given import taking_data
    from daskrf.workers.clients import check_client, warn_of_unused_client

    taking, shards = taking_data(function), has_shards(function)
    parameters = inspect.signature(function).parameters

    @functools.wraps(taking)
    def called(*arguments: Any, **named: Any) -> Any:
        if shards and not named.keys().isdisjoint(("shard", "prepare")):
            shard, prepare = named.pop("shard", None), named.pop("prepare", False)
            if shard is not None or prepare:
                _warn_of_shares(function.__name__, prepare=prepare)
            with sharing(shard, prepare):
                return called(*arguments, **named)
        client, is_shard = named.get("client"), current_share().shard is not None
        if not is_shard:  # which takes none, and says so
            check_client(client)
        if client is None and not is_shard and "client" in parameters:
            # Without an output there is little to do: a table on the screen, or a lazy array.
            output = inspect.signature(function).bind_partial(*arguments, **named).arguments.get("output")
            if output is not None or "output" not in parameters:
                warn_of_unused_client(stacklevel=2)
        try:
            return taking(*arguments, **named)
        except DaskrfError as error:
            if error.args:
                error.args = (in_python(str(error.args[0]), function), *error.args[1:])
            raise

    return called


def _warn_of_shares(name: str, *, prepare: bool) -> None:
    """Warn of an argument that has become a function."""
    old, new = ("prepare=True", "prepare_shards") if prepare else ("shard=", "run_shard")
    shard = "" if prepare else '"0/64", '
    message = f"In place of {name}(..., {old}) write daskrf.{new}(daskrf.{name}, {shard}...)."
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def summaries() -> Mapping[str, str]:
    """Return the first docstring line of each command, in the order of use, without importing any.

    Examples
    --------
    >>> list(summaries())[:3], summaries()["status"]
    (['quickstart', 'fingerprint', 'featurize'], 'Show what an output holds, and how a job on it is doing.')
    """
    return _summaries(tuple(__path__))


@functools.cache
def _summaries(folders: tuple[str, ...]) -> Mapping[str, str]:
    commands = []
    for file in (file for folder in folders for file in Path(folder).glob("*.py")):
        step, summary = Command.step, None
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name == file.stem:
                summary = inspect.cleandoc(ast.get_docstring(node) or "").partition("\n")[0]
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CLI":
                assert isinstance(node.value, ast.Call)
                step = next((ast.literal_eval(k.value) for k in node.value.keywords if k.arg == "step"), step)
        if summary is not None:
            commands.append((step, file.stem.replace("_", "-"), summary))
    return MappingProxyType({name: summary for _, name, summary in sorted(commands)})

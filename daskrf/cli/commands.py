"""Commands built from the functions of `daskrf.commands`: parse, call the function, print its report.

What only some commands need is imported where they need it: maps, kernels, workers and readers of files take
more than a second, and `status` shows a store in less.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from daskrf.cli.console import make_progress, shown
from daskrf.cli.options import Argument, Command, debug_option, option_of, where_option
from daskrf.commands import READING, summaries
from daskrf.files.backend import as_path
from daskrf.parameters import (
    OUTPUTS,
    REQUIRED,
    TABLES,
    Option,
    Parameter,
    description_of,
    parameters_of,
    without_python,
)

if TYPE_CHECKING:
    from daskrf.cli.components import MapOptions

_PLACES = {"workers", "memory_limit", "cluster", "scheduler", "scheduler_file"}
_AS_IN = re.compile(r"As in `(\w+)`")


def commands() -> dict[str, FunctionCommand]:
    """Return all commands by name, in the order of use."""
    return {name: command_of(name) for name in summaries()}


@functools.cache
def command_of(name: str) -> FunctionCommand:
    """Return the command with this name."""
    return FunctionCommand(name)


def flags_of_commands() -> set[str]:
    """Return the options that commands have regardless of the map."""
    options = [p for command in commands().values() for p in command.params if isinstance(p, click.Option)]
    return {flag for each in options for flag in (*each.opts, *each.secondary_opts)}


class FunctionCommand(Command):
    """A command that runs a function of `daskrf.commands`.

    Positional parameters become arguments, all others options. Parameters of a dataclass, a feature map or an
    acquisition rule become options too, as do the parameters of `client_of`.
    """

    def __init__(self, name: str) -> None:
        self.function = name.replace("-", "_")
        self.module = importlib.import_module(f"daskrf.commands.{self.function}")
        self.cli = self.module.CLI
        function = getattr(self.module, self.function)
        self.parameters = {parameter.name: parameter for parameter in parameters_of(function)}
        self.parts: dict[str, Any] = {}  # dataclasses, by the parameter whose value they are
        self.has_more = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
        self.maps: MapOptions | None = None
        made = [each for parameter in self.parameters.values() for each in self._made(parameter)]
        if self.cli.shards:
            from daskrf.jobs.shards import sharing

            made += map(where_option, parameters_of(sharing))
        returned = typing.get_type_hints(function)["return"]
        if any(hasattr(kind, "to_json") for kind in (returned, *typing.get_args(returned))):
            help_text = "Print the whole report as a JSON object."
            made.append(option_of(Parameter("json", (bool,), (), False, False, help_text)))
        super().__init__(
            name,
            params=[*made, debug_option()],
            callback=self._call,
            help=_help_of(function),
            example=self.cli.example,
            resumable=self.cli.resumable,
        )

    def _made(self, parameter: Parameter) -> Iterator[click.Parameter]:
        """Yield the argument or the options for a parameter."""
        more, name = self.cli.options.get(parameter.name), parameter.name
        if name == "client":
            from daskrf.workers.clients import client_of

            yield from map(where_option, parameters_of(client_of))
        elif name == "progress":
            return
        elif any(getattr(kind, "__module__", "").startswith("daskrf.") for kind in parameter.kinds):
            yield from self._made_of_class(parameter, more)
        elif parameter.positional and name != "output":
            yield Argument(_explained(parameter))
        else:
            needs = name == "output" and parameter.positional and not self.cli.prints
            needed = replace(parameter, default=REQUIRED) if needs else parameter
            yield option_of(_explained(needed), more)

    def _made_of_class(self, parameter: Parameter, more: Option | None) -> Iterator[click.Parameter]:
        """Yield the options for a parameter whose value is an object of daskrf."""
        from daskrf.acquisition import Acquisition, parameters_of_rules, rules
        from daskrf.cli.components import MapOptions
        from daskrf.features import FeatureMap
        from daskrf.kernels import Kernel

        name = parameter.name
        if parameter.class_below(FeatureMap):
            self.maps = MapOptions(name, fits=self.has_more, flags_of_commands=flags_of_commands)
            yield from self.maps.common()
        elif parameter.class_below(Acquisition):
            yield option_of(_explained(parameter), more, choices=rules())
            yield from map(option_of, parameters_of_rules())
        elif parts := [kind for kind in parameter.kinds if dataclasses.is_dataclass(kind)]:
            options_class: Any = parts[0]
            self.parts[name] = options_class
            unwanted = [each.removeprefix(f"{name}__") for each in self.cli.without]
            for field in parameters_of(options_class, without=tuple(unwanted)):
                option = replace(
                    options_class.options.get(field.name, Option()), section=options_class.section
                )
                yield option_of(field, option, name=f"{name}__{field.name}")
        elif not parameter.class_below(Kernel):
            raise AssertionError(f"no option is known for {name}: {parameter.kinds}")

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *ctx.meta.get("map options", ())]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.maps is None:
            return super().parse_args(ctx, args)
        return self.maps.parse(ctx, args, super().parse_args)

    def _call(self, **arguments: object) -> int:
        """Call the function with the given values and print its report."""
        self._check_files(arguments)
        values = {name: value for name, value in arguments.items() if value is not None and value != ()}
        as_json = values.pop("json", False)
        for name, options_class in self.parts.items():
            fields = {each: values.pop(each) for each in list(values) if each.startswith(f"{name}__")}
            if fields:
                values[name] = options_class(
                    **{each.removeprefix(f"{name}__"): value for each, value in fields.items()}
                )
        for name, value in values.items():
            if isinstance(value, tuple) and len(value) == 1:
                values[name] = value[0]
        self._with_values(self.cli.check, values)
        with self._at_work(values) as work:
            report = self._taking_data()(**values, **work)
        click.echo(report.to_json() if as_json else _text_of(report))
        return getattr(report, "exit_code", 0)

    def _taking_data(self) -> Callable[..., Any]:
        """Return the function, with data on standard input in place of files if it reads or writes any."""
        function: Callable[..., object] = getattr(self.module, self.function)
        if not self.parameters.keys() & {*TABLES, *OUTPUTS}:
            return function
        from daskrf.sources.given import taking_data

        return taking_data(function)

    @contextmanager
    def _at_work(self, values: dict[str, object]) -> Iterator[dict[str, object]]:
        """Remove the options on where to work from `values`, and yield the arguments made from them."""
        if "client" in self.parameters:
            if not _PLACES & values.keys() and self._with_values(self.cli.workers_for, values) is False:
                values["workers"] = 0
            from daskrf.cli.session import at_work

            with at_work(values) as work:
                yield work
        elif "progress" in self.parameters:
            with make_progress() as progress:
                yield {"progress": progress}
        else:
            yield {}

    @staticmethod
    def _with_values(function: Callable[..., object] | None, values: Mapping[str, object]) -> object:
        """Return what a function returns for those of the values that it takes by name; None without one."""
        if function is None:
            return None
        return function(*(values.get(name) for name in inspect.signature(function).parameters))

    def _check_files(self, arguments: dict[str, Any]) -> None:
        """Reject options for reading SMILES files if the input is a store, where they have no effect."""
        if not {"source", "format"} <= self.parameters.keys():
            return
        from daskrf.storage.kinds import kind_of

        reading = (each for each in self.params if getattr(each, "section", "") == READING.section)
        flags = [each.opts[0] for each in reading if arguments[str(each.name)] not in (None, ())]
        for path in arguments["source"]:
            if flags and kind_of(as_path(path), missing_ok=True) is not None:
                raise click.UsageError(f"{flags[0]} is for reading SMILES files, but {path} is a store.")


def _explained(parameter: Parameter) -> Parameter:
    """Return a parameter with help; "As in `command`" is replaced by the help of that command."""
    same = _AS_IN.match(parameter.help)
    if same is None:
        return parameter
    function = getattr(importlib.import_module(f"daskrf.commands.{same[1]}"), same[1])
    return replace(parameter, help=next(p.help for p in parameters_of(function) if p.name == parameter.name))


def _help_of(function: Callable[..., object]) -> str:
    """Return the docstring of a function up to its sections; "\\b" keeps Click from rewrapping a table."""
    text = without_python(description_of(function))
    paragraphs = re.sub("`(?=`)|:(?=:)", "", text).split("\n\n")
    return "\n\n".join(f"\b\n{text}" if text.startswith(" ") else text for text in paragraphs)


def _text_of(report: Any) -> str:
    """Return the text of a report, without the lines on reading files, which were printed at the start."""
    if getattr(report, "named", False):  # a map
        from daskrf.cli.components import map_page

        (named,) = report.maps
        return map_page(named, flags_of_commands())
    has_inputs = any(field.name == "inputs" for field in dataclasses.fields(report))
    return shown(replace(report, inputs=()) if has_inputs else report)

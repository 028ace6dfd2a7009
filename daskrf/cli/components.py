"""The options of a feature map, and the map built from them, derived from the parameters of its class."""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import click

from daskrf.cli.options import SectionOption, option_of, typed
from daskrf.errors import InputError, StoreError
from daskrf.features import FeatureMap, default_map, known_maps
from daskrf.files.backend import as_path
from daskrf.gp.choice.mapchoice import AutoMap
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.processes import PROCESSES
from daskrf.kernels import Kernel, TanimotoMinMax
from daskrf.kernels.kernel import AUTO, known_kernels
from daskrf.parameters import REQUIRED, Option, Parameter, parameters_of, summary_of, without_python
from daskrf.quantities import either
from daskrf.storage.kinds import kind_of

_FEATURES = "Random features"
_EXACT = "Exact model"
_WIDEST = 100  # maximum line length in characters, on terminals that wide
_PREFIX = "map__"  # prefix of Click's name for an option of a map, before its parameter's path joined by "__"
_PROCESS = "process"  # first element of the path of an option of a Gaussian process


@dataclass(frozen=True)
class ComponentOption:
    """An option of a map, of the kernel or map it is built from, or of its Gaussian process.

    Attributes
    ----------
    path : tuple of str
        Parameter names from the map down, such as ("kernel", "nu").
    parameter : Parameter
    flag : str
    """

    path: tuple[str, ...]
    parameter: Parameter
    flag: str

    @property
    def components(self) -> dict[str, type]:
        """The kernels or maps to choose from, if the value is one."""
        kind = self.parameter.kind
        if not isinstance(kind, type):
            return {}
        if issubclass(kind, Kernel):
            return dict(known_kernels(kind))
        return dict(maps_by_name()) if issubclass(kind, FeatureMap) else {}

    @property
    def default(self) -> type:
        """The kernel or map used if none is named."""
        default = self.parameter.default
        return type(default_map() if default is None else default)

    @property
    def help(self) -> str:
        """Help from the docstring, with command-line names for maps and kernels, and the default."""
        default, text = self.parameter.default, without_python(self.parameter.help)
        text = re.sub(r"`+([^`\s]+)`+", lambda quoted: _names().get(quoted[1], quoted[1]), text)
        if self.components:
            text += f" One of: {', '.join(self.components)}."
        if default is REQUIRED:
            return f"{text}  [required]"
        if self.components:
            default = _name(self.default)
        elif isinstance(default, tuple):
            default = ",".join(f"{number:g}" for number in default)
        elif isinstance(default, bool):
            default = f"{'' if default else 'no-'}{self.flag.removeprefix('--')}"
        return text + (f"  [default: {default}]" if default is not None else "")

    def as_click(self, *, hidden: bool = False, section: str = "") -> SectionOption:
        """Return the Click option."""
        parameter, choices = self.parameter, list(self.components)
        more = Option(section=section or _FEATURES)
        if parameter.kind is bool:
            more = replace(more, flags=f"{self.flag}/--no-{self.flag[2:]}")
        elif parameter.class_below(FeatureMap):
            more, choices = replace(more, convert=known_name, metavar="NAME"), []
        elif choices:
            more, choices = replace(more, convert=self._component, metavar="NAME"), []
        elif parameter.choices and parameter.kind is str:
            choices = [*map(str, parameter.choices), *(["none"] if parameter.optional else [])]
        elif parameter.repeated:
            more = replace(more, convert=str, metavar="A,B,...")
        name = _PREFIX + "__".join(self.path)
        keywords = {"help": self.help, "required": False, "hidden": hidden}
        return option_of(parameter, more, name=name, flag=self.flag, choices=choices, **keywords)

    def _component(self, text: str) -> str:
        """Return the name of a kernel; for an unknown one, raise a ValueError that lists all names."""
        if text not in self.components:
            raise ValueError(f"{text!r} is not one of {', '.join(map(repr, self.components))}.")
        return text

    def value(self, raw: object) -> Any:
        """Return the parameter's value from the value that Click has read."""
        parameter = self.parameter
        if raw == "none" and parameter.optional:
            return None
        named = self.components or parameter.kind is str or raw in parameter.choices
        if named or not isinstance(raw, str):
            return raw
        try:
            return tuple(float(text) for text in raw.split(","))
        except ValueError:
            words = " or ".join([*parameter.choices, "numbers such as 0,1,0.5"])
            raise click.UsageError(f"{self.flag} takes {words}, not {raw!r}.") from None


class Component:
    """A map, or a kernel or map it is built from, with the options for its parameters.

    Parameters
    ----------
    cls : type
    label : str
        Name in messages.
    text_of : callable
        Returns the text given for an option, or None; the component named there determines further options.
    path : tuple of str
        Path of the parameter whose value it is.
    like : object, optional
        The map's default for that parameter; it supplies the values of parameters with the same names.
    taken : set of str
        Options of other parameters; a parameter with the same name gets its owner's name as a prefix.
    """

    def __init__(
        self,
        cls: type,
        label: str,
        text_of: Callable[[str], str | None],
        path: tuple[str, ...] = (),
        like: Any = None,
        *,
        taken: set[str],
    ) -> None:
        self.cls, self.label, self.path, self.text_of = cls, label, path, text_of
        defaults = getattr(cls, "option_defaults", {})
        own_names = (name for name in vars(like or object) if name in signature(cls).parameters)
        self.explicit = {*defaults, *own_names}
        self.parameters = [
            each if each.name in defaults else replace(each, default=getattr(like, each.name, each.default))
            for each in parameters_of(cls)
        ]
        self.options: dict[str, ComponentOption] = {}
        self.parts: dict[str, Component] = {}
        common = FeatureMap.common if issubclass(cls, FeatureMap) else ()
        for parameter in self.parameters:
            if parameter.name not in common:
                name = parameter.name.replace("_", "-")
                flag = f"--{name}" if f"--{name}" not in taken else f"--{(path or ('map',))[-1]}-{name}"
                taken.add(flag)
                self.options[parameter.name] = ComponentOption((*path, parameter.name), parameter, flag)
        for name, option in self.options.items():
            if components := option.components:
                component = components.get(text_of(option.flag) or "", option.default)
                like, label = option.parameter.default, f"{option.flag} {_name(component)}"
                self.parts[name] = Component(component, label, text_of, option.path, like, taken=taken)

    def __iter__(self) -> Iterator[ComponentOption]:
        """Yield the options of this component and its parts."""
        for name, option in self.options.items():
            yield option
            yield from self.parts.get(name, ())

    def make(self, values: Mapping[tuple[str, ...], object]) -> Any:
        """Return the object built from option values, which are keyed by path."""
        arguments = {}
        for parameter in self.parameters:
            name, path = parameter.name, (*self.path, parameter.name)
            if name in self.parts:
                if self.parts[name].is_explicit(values):
                    arguments[name] = self.parts[name].make(values)
            elif path in values:
                arguments[name] = values[path]
            elif parameter.default is REQUIRED:
                raise click.UsageError(f"{self.label} needs {self.options[name].flag}.")
            elif name in self.explicit:
                arguments[name] = parameter.default
        for path in values:
            if path[:-1] == self.path and path[-1] not in arguments:
                raise click.UsageError(f"{self.label} has no option --{path[-1].replace('_', '-')}.")
        return self.cls(**arguments)

    def goes_with(self, flag: str) -> str | None:
        """Return a message naming the kernel or map, other than those chosen, that an option belongs to."""
        for option, component in ((self.options[name], component) for name, component in self.parts.items()):
            taken = {each.flag for each in self.options.values()}
            others = [
                name
                for name, cls in option.components.items()
                if flag in {each.flag for each in _parts(option, cls, taken)}
            ]
            if others:
                default = "" if component.text_of(option.flag) else " (the default)"
                return f"{flag} goes with {either(option.flag, others)}, not with {component.label}{default}."
            if (words := component.goes_with(flag)) is not None:
                return words
        return None

    def is_explicit(self, values: Iterable[tuple[str, ...]]) -> bool:
        """Return whether it must be built from options, because the map's default does not apply."""
        defaults = getattr(self.cls, "option_defaults", {})
        needs = any(parameter.default is REQUIRED for parameter in self.parameters)
        needs = needs or AUTO in defaults.values()  # the constructor's default is a number
        return needs or any(path[: len(self.path)] == self.path for path in values)


class MapOptions:
    """The options of a feature-map parameter: those common to all maps, and those of the map named.

    Parameters
    ----------
    name : str
        Name of the parameter.
    fits : bool
        Whether the map's Gaussian process has options too.
    flags_of_commands : callable
        Returns the options that commands have regardless of the map.
    """

    def __init__(self, name: str, *, fits: bool, flags_of_commands: Callable[[], set[str]]) -> None:
        self.name, self.fits, self.flags_of_commands = name, fits, flags_of_commands

    def common(self) -> list[SectionOption]:
        """Return the options common to all maps."""
        help_of = {
            "": "Feature map: which kernel to approximate, and how. `daskrf maps` lists all maps. A map's "
            "own options can be given here too; `daskrf maps NAME` shows them. "
            + ("auto: the most accurate of several, by cross-validation. " if self.fits else "")
            + " [default: minmax, one-bit features of the Tanimoto similarity]",
            "n_components": "Number of features. More features are more accurate and cost more.  "
            "[default: the map's own]",
            "random_state": "Seed of all random numbers of the map.  [default: 0]",
        }
        more = {
            "": Option(
                "--map", metavar="NAME", convert=_name_or_auto if self.fits else known_name, section=_FEATURES
            ),
            "n_components": Option(least=1, section=_FEATURES),
            "random_state": Option(least=0, section=_FEATURES),
        }
        return [
            option_of(Parameter(name, (int,), (), True, None, help_of[name]), more[name], name=_PREFIX + name)
            for name in help_of
        ]

    def parse(self, ctx: click.Context, args: list[str], parse_args: Callable[..., list[str]]) -> list[str]:
        """Parse arguments with the options of the map they name, and store the map in the parameters."""
        named = _value_of(args, "--map")
        if self.fits and named is None and _may_be_exact(args):
            return self._parse_exact(ctx, args, parse_args)
        if named is None and {"-h", "--help"} & set(args):
            return parse_args(ctx, args)
        cls = maps_by_name().get(named or "") or type(default_map())
        if named == AUTO and self.fits:
            return self._parse_auto(ctx, args, parse_args)
        taken = self.flags_of_commands()
        label = f"--map {cls.facts.name}"
        chosen = Component(cls, label, lambda flag: _value_of(args, flag), taken=set(taken))
        options = list(chosen)
        have = ", ".join(each.flag for each in [*options, *(process_options([cls]) if self.fits else [])])
        if self.fits:  # also for a feature store, whose map is not named
            options += process_options([cls] if named else maps_by_name().values())
        ctx.meta["map options"] = [each.as_click(hidden=named is None) for each in options]
        try:
            rest = parse_args(ctx, args)
        except click.NoSuchOption as error:
            if (flag := error.option_name.replace("--no-", "--")) not in flags_of_any():
                raise
            if (words := chosen.goes_with(flag)) is None:
                default = "" if named else " (the default)"
                maps = [cls.facts.name for cls in known_maps() if flag in self._flags_of(cls)]
                goes = f"goes with {either('--map', maps)}" if maps else "is an option of fit"
                words = f"{chosen.label}{default} has no option {error.option_name}; it has {have}."
                words += f" {flag} {goes}." if maps or not self.fits else ""
            raise click.UsageError(words, ctx) from None
        by_path = {each.path: each for each in options}
        values = {}
        for key in [key for key in ctx.params if key.startswith(_PREFIX)]:
            path, value = tuple(key.removeprefix(_PREFIX).split("__")), ctx.params.pop(key)
            if value is not None and path != ("",):
                values[path] = by_path[path].value(value) if path in by_path else value
        ctx.params |= {path[1]: values.pop(path) for path in list(values) if path[0] == _PROCESS}
        ctx.params[self.name] = chosen.make(values) if values or named else None
        return rest

    def _flags_of(self, cls: type[FeatureMap]) -> set[str]:
        """Return the options of a map, of its possible kernels and, if the command fits, of its process."""
        whole = Component(cls, "", lambda flag: None, taken=self.flags_of_commands())
        flags = {option.flag for option in whole.options.values()}
        for option in whole.options.values():
            for component in option.components.values():
                if issubclass(component, Kernel):
                    flags |= {each.flag for each in _parts(option, component, set(flags))}
        return flags | ({each.flag for each in process_options([cls])} if self.fits else set())

    def _parse_auto(
        self, ctx: click.Context, args: list[str], parse_args: Callable[..., list[str]]
    ) -> list[str]:
        """Parse arguments with --map auto, which has only a size and a seed."""
        ctx.meta["map options"] = []
        try:
            rest = parse_args(ctx, args)
        except click.NoSuchOption as error:
            if (flag := error.option_name.replace("--no-", "--")) not in flags_of_any():
                raise
            words = f"--map auto tries each map with its default options, and takes no {flag}; name a map."
            raise click.UsageError(words, ctx) from None
        keys = [key for key in ctx.params if key.startswith(_PREFIX)]
        values = {key.removeprefix(_PREFIX): ctx.params.pop(key) for key in keys}
        ctx.params[self.name] = AutoMap(**{k: v for k, v in values.items() if k and v is not None})
        return rest

    def _parse_exact(
        self, ctx: click.Context, args: list[str], parse_args: Callable[..., list[str]]
    ) -> list[str]:
        """Parse arguments with the options of an exact model and of its kernel."""
        options = process_options([ExactGP])
        taken = self.flags_of_commands() | {each.flag for each in options}
        kernel = _kernel_of_exact()
        cls = kernel.components.get(_value_of(args, "--kernel") or "", kernel.default)
        label = f"--kernel {_name(cls)}"
        component = Component(
            cls, label, lambda flag: _value_of(args, flag), ("kernel",), kernel, taken=taken
        )
        options += [kernel, *component]
        ctx.meta["map options"] = [each.as_click(section=_EXACT) for each in options]
        try:
            rest = parse_args(ctx, args)
        except click.NoSuchOption as error:
            if (flag := error.option_name.replace("--no-", "--")) not in flags_of_any():
                raise
            have = ", ".join(each.flag for each in options)
            maps = [each.facts.name for each in known_maps() if flag in self._flags_of(each)]
            words = f"An exact model with {label} has no option {error.option_name}; it has {have}."
            words += f" {flag} goes with {either('--map', maps)}." if maps else ""
            raise click.UsageError(words, ctx) from None
        by_path, values = {each.path: each for each in options}, {}
        for key in [key for key in ctx.params if key.startswith(_PREFIX)]:
            path, value = tuple(key.removeprefix(_PREFIX).split("__")), ctx.params.pop(key)
            if value is not None and path in by_path:
                values[path] = by_path[path].value(value)
            elif value is not None and path == ("random_state",):
                ctx.params["random_state"] = value
            elif value is not None:
                raise click.UsageError(f"An exact model has no option --{path[-1].replace('_', '-')}.", ctx)
        ctx.params |= {path[1]: value for path, value in values.items() if path[0] == _PROCESS}
        ctx.params[self.name] = None
        explicit = ("kernel",) in values or component.is_explicit(values)
        ctx.params["kernel"] = (
            component.make({p: v for p, v in values.items() if len(p) > 1}) if explicit else None
        )
        return rest


def _may_be_exact(args: list[str]) -> bool:
    """Return whether arguments that name no map may contain options of an exact model."""
    process = _value_of(args, "--process") or "auto"
    exact = process == "auto" and not {"-M", "--n-components"} & set(args)
    paths = (word for word in args if not word.startswith("-"))
    return process == "exact" or (exact and not any(_holds_features(path) for path in paths))


def _holds_features(path: str) -> bool:
    """Return whether a path is a feature store; the command itself reports one that cannot be read."""
    try:
        return kind_of(as_path(path), missing_ok=True) == "features"
    except (InputError, StoreError):  # or it is no path, but the address of a scheduler
        return False


def _value_of(args: list[str], flag: str) -> str | None:
    """Return the text given for an option, before Click has parsed it.

    Examples
    --------
    >>> _value_of(["fps", "--map", "fourier", "--kernel=matern"], "--kernel")
    'matern'
    """
    for word, after in itertools.zip_longest(args, args[1:], fillvalue=""):
        if word == flag:
            return after
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None


def process_options(processes: Iterable[Any]) -> list[ComponentOption]:
    """Return the options specific to these Gaussian processes, or to those of these maps.

    Examples
    --------
    >>> from daskrf.features import LandmarkFeatures
    >>> [option.flag for option in process_options([LandmarkFeatures])]
    ['--criterion']
    """
    options = {}
    for name in dict.fromkeys(getattr(cls, "process", cls) for cls in processes):
        process = PROCESSES[name] if isinstance(name, str) else name
        for parameter in parameters_of(process, without=process.common):
            flag = f"--{parameter.name.replace('_', '-')}"
            options[flag] = ComponentOption((_PROCESS, parameter.name), parameter, flag)
    return list(options.values())


def options_of_kernels(flags_of_commands: set[str]) -> dict[str, list[tuple[str, str]]]:
    """Return what --help says of the options of an exact model's kernels, by the kernel.

    `flags_of_commands` are the options that commands have regardless of the map.

    Examples
    --------
    >>> [flag for flag, _ in options_of_kernels(set())["matern"]]
    ['--length-scale X|auto', '--nu X']
    """
    taken = flags_of_commands | {each.flag for each in process_options([ExactGP])}
    kernel = _kernel_of_exact()
    return {name: _records(_parts(kernel, cls, taken)) for name, cls in kernel.components.items()}


def _kernel_of_exact() -> ComponentOption:
    """Return the option --kernel of an exact model."""
    (kernel,) = (each for each in parameters_of(ExactGP) if each.name == "kernel")
    return ComponentOption(("kernel",), replace(kernel, default=TanimotoMinMax()), "--kernel")


@functools.cache
def _names() -> dict[str, str]:
    """Return the command-line names of map and kernel classes."""
    names = {cls.__name__: name for name, cls in known_kernels().items()}
    return names | {cls.__name__: cls.facts.name for cls in known_maps()}


def map_page(cls: type[FeatureMap], flags_of_commands: set[str]) -> str:
    """Return the help page of one map: its kernel, costs, options and an example.

    `flags_of_commands` are the options that commands have regardless of the map.
    """
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    facts, page = cls.facts, click.HelpFormatter(width=width)
    title = f"{facts.name}: {cls.__name__}{', the default' if facts.is_default else ''}"
    page.write(f"{title}\n\n{textwrap.fill(summary_of(cls).replace('`', ''), width)}\n")
    with page.section("What it is"):
        lines = {"when": facts.use, "kernel": facts.kernel, "input": facts.rows, "features": facts.features}
        lines |= {"bytes a row": facts.bytes_a_row, "cost a row": facts.cost, "holds": facts.holds}
        page.write_dl(list({**lines, "learns": facts.learns, "reference": facts.reference}.items()))
    whole = Component(cls, "", lambda flag: None, taken=set(flags_of_commands))
    common = ("n_components", "--n-components"), ("random_state", "--random-state")
    by_name = {parameter.name: parameter for parameter in whole.parameters}
    options = [ComponentOption((name,), by_name[name], flag) for name, flag in common if name in by_name]
    _write_options(page, "Options", [*options, *whole.options.values()])
    for option_ in whole.options.values():
        for name, component in option_.components.items():
            if issubclass(component, Kernel):
                taken = {each.flag for each in whole.options.values()} | flags_of_commands
                _write_options(page, f"With {option_.flag} {name}", _parts(option_, component, taken))
    _write_options(page, "Options of fit", process_options([cls]))
    with page.section("Example"):
        command = f"daskrf featurize real.fingerprints -o real.features --map {facts.name} {facts.example}"
        page.write(typed(command, width))
    return page.getvalue().rstrip()


def maps_by_name() -> dict[str, type[FeatureMap]]:
    """Return all maps by name.

    Examples
    --------
    >>> maps_by_name()["fourier"].__name__
    'RandomFourierFeatures'
    """
    return {cls.facts.name: cls for cls in known_maps()}


def known_name(text: str) -> str:
    """Return the name of a map; for an unknown one, raise a ValueError that lists all names."""
    if text not in maps_by_name():
        raise ValueError(f"{text!r} is not a map; the maps are {', '.join(maps_by_name())}.")
    return text


def _name_or_auto(text: str) -> str:
    """Return the name of a map, or "auto"."""
    return text if text == AUTO else known_name(text)


def flags_of_any() -> set[str]:
    """Return the options of all maps, kernels and processes.

    Examples
    --------
    >>> {"--nu", "--hashing", "--rows"} <= flags_of_any()
    True
    """
    classes = [*known_maps(), *known_kernels().values()]
    names = {parameter.name for cls in classes for parameter in parameters_of(cls)}
    return {f"--{name.replace('_', '-')}" for name in names} | {o.flag for o in process_options(known_maps())}


def _name(component: type) -> str:
    """Return the command-line name of a map or kernel."""
    return component.facts.name if issubclass(component, FeatureMap) else getattr(component, "name", "")


def _parts(of: ComponentOption, component: type, taken: set[str]) -> list[ComponentOption]:
    """Return the options of a kernel that may be the value of a parameter."""
    return list(Component(component, "", lambda flag: None, of.path, of.parameter.default, taken=set(taken)))


def _write_options(page: click.HelpFormatter, title: str, options: Iterable[ComponentOption]) -> None:
    if records := _records(options):
        with page.section(title):
            page.write_dl(records)


def _records(options: Iterable[ComponentOption]) -> list[tuple[str, str]]:
    """Return how each option is written, and its help."""
    records = (each.as_click().get_help_record(click.Context(click.Command(""))) for each in options)
    return [record for record in records if record is not None]

"""Feature maps on the command line: common options, and those of the map that is named."""

from __future__ import annotations

from typing import Any

import click

from daskrf.cli.options import FEATURES, Command, option, stack

__all__ = ["MapCommand", "MapName", "map_options"]


class MapName(click.ParamType[str]):
    """The name of a feature map."""

    name = "name"

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> str:
        from daskrf.cli.components import known

        if value not in known():
            self.fail(f"{value!r} is none of the maps {', '.join(known())}.", parameter, ctx)
        return value


map_options = stack(
    option(
        "--map",
        "map__",
        metavar="NAME",
        type=MapName(),
        section=FEATURES,
        help="The kernel, and how it is approximated: `daskrf maps` lists all. Each has options of its own, "
        "which go here too: `daskrf maps NAME` shows them.  [default: one-bit features of the Tanimoto "
        "similarity]",
    ),
    option(
        "-M",
        "--n-components",
        "map__n_components",
        metavar="N",
        type=click.IntRange(min=1),
        section=FEATURES,
        help="Number of features: more is more accurate and costs more.  [default: that of the map]",
    ),
    option(
        "--random-state",
        "map__random_state",
        metavar="N",
        type=click.IntRange(min=0),
        section=FEATURES,
        help="Seed of every random number of the map.  [default: 0]",
    ),
)


class MapCommand(Command):
    """A command with `map_options`, which takes the options of the map that is named, too.

    The command gets `feature_map`, None where no option of a map is given; with `fits` also `model_options`,
    those of the Gaussian process of the map.
    """

    def __init__(self, *arguments: Any, fits: bool = False, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.fits = fits

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *ctx.meta.get("own", ())]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = _value_of(args, "--map")
        if named is None and {"-h", "--help"} & set(args):
            return super().parse_args(ctx, args)
        from daskrf.cli.components import PREFIX, PROCESS, Component, flags_of_any, known, process_options
        from daskrf.features import default_map

        cls = known().get(named or "") or type(default_map())
        chosen = Component(cls, f"--map {cls.facts.name}", lambda flag: _value_of(args, flag))
        own = list(chosen)
        have = ", ".join(each.flag for each in [*own, *(process_options([cls]) if self.fits else [])])
        if self.fits:  # also of a feature store, whose map is not named
            own += process_options([cls] if named else known().values())
        ctx.meta["own"] = [each.as_click(hidden=named is None) for each in own]
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name.replace("--no-", "--") not in flags_of_any():
                raise
            words = f"{chosen.label} has no option {error.option_name}; it has {have}."
            raise click.UsageError(words, ctx) from None
        by_path = {each.path: each for each in own}
        values = {}
        for key in [key for key in ctx.params if key.startswith(PREFIX)]:
            path, value = tuple(key.removeprefix(PREFIX).split("__")), ctx.params.pop(key)
            if value is not None and path != ("",):
                values[path] = by_path[path].value(value) if path in by_path else value
        if self.fits:
            ctx.params["model_options"] = {p[1]: values.pop(p) for p in list(values) if p[0] == PROCESS}
        ctx.params["feature_map"] = chosen.make(values) if values or named else None
        return rest


def _value_of(args: list[str], flag: str) -> str | None:
    """Return what is given for an option, before Click has read it.

    Examples
    --------
    >>> _value_of(["fps", "--map", "fourier", "--kernel=matern"], "--kernel")
    'matern'
    """
    for word, after in zip(args, [*args[1:], ""], strict=True):
        if word == flag:
            return after
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None

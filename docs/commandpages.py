"""The pages of all commands, made from the commands themselves when the documentation is built."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from daskrf.cli.commands import FunctionCommand, commands, flags_of_commands
from daskrf.cli.components import map_page, options_of_kernels
from daskrf.commands import summaries
from daskrf.features.featuremap import known_maps

INTRODUCTION = """\
Each page has the arguments and options of a command, as its ``--help`` prints them. In Python, a command is a
function of the same name, and options are its arguments: see the :doc:`API reference </api>`."""


def pages() -> dict[str, str]:
    """Return the text of each page, in reStructuredText, by its name."""
    texts = {name: "\n".join(page_of(command)) for name, command in commands().items()}
    return {"index": index(), **texts, "maps-options": "\n".join(page_of_maps())}


def index() -> str:
    """Return the page that lists the commands."""
    rows = [f"   * - :doc:`{name}`\n     - {escaped(summary)}" for name, summary in summaries().items()]
    table = ".. list-table::\n   :widths: 20 80\n\n" + "\n".join(rows)
    below = "\n   ".join([*summaries(), "maps-options"])
    tree = f".. toctree::\n   :hidden:\n\n   {below}"
    more = "The options of each feature map are on :doc:`one page <maps-options>`."
    return "\n\n".join(["Commands\n========", INTRODUCTION, table, more, tree]) + "\n"


def page_of(command: FunctionCommand) -> Iterator[str]:
    """Yield the lines of the page of a command."""
    name = str(command.name)
    yield from heading(f"daskrf {name}", "=")
    for paragraph in (command.help or "").split("\n\n"):
        preformatted, text = paragraph.startswith("\b\n"), paragraph.removeprefix("\b\n")
        yield from ["::", "", text, ""] if preformatted else [prose(text), ""]
    yield from heading("Example", "-")
    yield from [".. code-block:: console", "", *(f"   {line}" for line in command.example.splitlines()), ""]
    for title, records in sections_of(command).items():
        if records:
            yield from heading(title, "-")
            yield f".. program:: daskrf {name} {title.partition('--kernel')[2]}\n"
        for written, text in records:
            yield from described(written, text, is_option=title != "Arguments")


def page_of_maps() -> Iterator[str]:
    """Yield the lines of the page of the options of feature maps, as `daskrf maps NAME` prints them."""
    yield from heading("Options of feature maps", "=")
    yield "What ``daskrf maps NAME`` prints. :doc:`../maps` says which map to take.\n"
    for cls in sorted(known_maps(), key=lambda cls: cls.facts.name):
        with mock.patch.dict(os.environ, {"COLUMNS": "80", "LINES": "25"}):
            text = map_page(cls, flags_of_commands())
        yield from heading(cls.facts.name, "-")
        yield from ["::", "", *(f"   {line}".rstrip() for line in text.splitlines()), ""]


def sections_of(command: FunctionCommand) -> dict[str, list[tuple[str, str]]]:
    """Return what is said of the options of a command, and of the kernels that it may use, by heading."""
    with command.make_context(str(command.name), [], resilient_parsing=True) as ctx:
        sections = command.sections(ctx)
    if command.maps is not None and command.maps.fits:
        kernels = options_of_kernels(flags_of_commands())
        sections |= {f"With --kernel {name}": records for name, records in kernels.items()}
    return sections


def heading(title: str, underline: str) -> list[str]:
    return [title, underline * len(title), ""]


def described(written: str, text: str, *, is_option: bool) -> list[str]:
    """Return the lines of an argument or option, and of what it does."""
    if not is_option:
        return [f"``{written}``", f"   {prose(text)}", ""]
    return [f".. option:: {written.replace(' / ', ', ')}", "", f"   {prose(text)}", ""]


def prose(text: str) -> str:
    """Return text on one line, with options and what it quotes as code: else Sphinx makes dashes of --."""
    pieces = re.split(r"(`+[^`]+`+|(?<![\w-])--[a-z][\w-]*)", " ".join(text.split()))
    return "".join(f"``{piece.strip('`')}``" if i % 2 else escaped(piece) for i, piece in enumerate(pieces))


def escaped(text: str) -> str:
    r"""Return text whose signs mean nothing in reStructuredText.

    Examples
    --------
    >>> print(escaped("daskrf_ *"))
    daskrf\_ \*
    """
    return re.sub(r"[\\`*_|]", r"\\\g<0>", text)


def write(folder: Path) -> None:
    """Write all pages that have changed into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)

"""The example files of the page on libraries are read as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from daskrf.tables import TableFormat, lay_out, table_words

PAGE = Path(__file__).resolve().parents[1] / "docs" / "libraries.md"
EXAMPLE = re.compile(r"```\{code-block\} text\n:caption: (\S+)\n(.*?)```\n\n> (.*?)\n", re.DOTALL)
EXAMPLES = {name: (content, words) for name, content, words in EXAMPLE.findall(PAGE.read_text())}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_read_as_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, words = EXAMPLES[name]
    Path(name).write_text(content)
    assert table_words(lay_out(Path(name), TableFormat())) == (words,)


def test_every_example_has_its_line() -> None:
    assert len(EXAMPLES) == PAGE.read_text().count(":caption:") >= 8

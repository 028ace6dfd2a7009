"""The file of a campaign: each field is an option of a command, and what is wrong is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from daskrf.campaigns.settings import read_settings
from daskrf.cli.commands import commands
from daskrf.commands.campaign import _sections
from daskrf.errors import InputError


def read(tmp_path: Path, text: str) -> dict[str, dict[str, object]]:
    path = tmp_path / "campaign.toml"
    path.write_text(text)
    return read_settings(path, _sections())


def test_values_are_those_that_the_commands_take(tmp_path: Path) -> None:
    values = read(
        tmp_path,
        'library = ["a.smi", "b.smi"]\nfirst = 50\nhit = -9\nestimate = false\nsmiles-column = "SMI"\n'
        '[suggest]\nn = 20\nwhere = "weight < 450"\nacquisition = "ucb"\nkappa = 2\nshortlist = "0.1"\n'
        'per_value = ["amine=3"]\nwithin = {weight = [100, 400]}\nexclude = "old.csv"\n'
        '[fit]\nquick = true\nnoise_variance = 0.1\ndrop_outside = "-15:0"\n[found]\nk = 10\n[add]\n',
    )
    assert values[""] == {
        "library": ["a.smi", "b.smi"],
        "first": 50,
        "hit": -9,
        "estimate": False,
        "smiles_column": "SMI",
    }
    assert values["suggest"] == {
        "n": 20,
        "where": "weight < 450",
        "acquisition": "ucb",
        "kappa": 2,
        "shortlist": 0.1,
        "per_value": {"amine": 3},
        "within": {"weight": [100, 400]},
        "exclude": "old.csv",
    }
    assert values["fit"] == {"quick": True, "noise_variance": 0.1, "drop_outside": "-15:0"}
    assert (values["found"], values["add"]) == ({"k": 10}, {})


def test_each_field_is_an_option_of_its_command() -> None:
    for section in _sections().values():
        flags = {
            flag for each in commands()[section.command].params for flag in (*each.opts, *each.secondary_opts)
        }
        for name in section.parameters:
            flag = f"--{name.replace('_', '-')}" if len(name) > 1 else f"-{name}"
            assert flag in flags, (section.command, name)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "frist = 5",
            "field 'frist', which is no option of `daskrf campaign` for campaigns; perhaps you mean 'first'",
        ),
        ("[sugest]\nn = 5", r"table \[sugest\], which does not exist; perhaps you mean 'suggest'"),
        (
            "[suggest]\nlabels = 'a'",
            r"\[suggest\] has a field 'labels', which is no option of `daskrf suggest`",
        ),
        ("first = '5'", "first = '5': it must be a whole number"),
        ("first = 1", "first = 1: it must be at least 2"),
        ("first = true", "first = True: it must be a whole number"),
        ("direction = 'up'", "direction = 'up': it must be 'maximize' or 'minimize'"),
        ("estimate = 1", "estimate = 1: it must be true or false"),
        ("library = 3", "library = 3: it must be the path of a file in quotes or a list|it must be a text"),
        ("[suggest]\nmax_similarity = 'high'", "max_similarity = 'high': it must be a number"),
        ("[suggest]\nper_value = 'amine'", "give a column and a number, such as amine=3"),
        ("suggest = 5", r"suggest is a table; write \[suggest\] on a line"),
        ("first = ", "is not TOML"),
        ("first = 5\nfirst = 6", "is not TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence) as raised:
        read(tmp_path, text)
    assert "campaign.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.toml does not exist; give the TOML file"):
        read_settings(tmp_path / "absent.toml", _sections())

"""Reactions whose products do not compose are refused with the reason."""

from __future__ import annotations

import pickle

import pytest

from daskrf.errors import InputError
from daskrf.spaces.reactions import Reaction
from tests.spaces.helpers import SPACES

AMINE, ACID = "[N:1]([H])[*:2]", "[OH][C:3]=[O:4]"


@pytest.mark.parametrize("name", SPACES)
def test_reactions_of_one_bond_a_slot_are_cut(name):
    smarts, slots = SPACES[name]
    reaction = Reaction(name, smarts)
    assert reaction.refusal == ""
    assert sum(len(half.cuts) for half in reaction.halves) == 2 * (len(slots) - 1)


@pytest.mark.parametrize(
    ("smarts", "reason"),
    [
        (f"{AMINE}>>[*:2][N:1]C", "it has 1 slot; two or three are supported"),
        (f"{AMINE}.{ACID}>>[*:2][N:1].[C:3]=[O:4]", "it has several products"),
        (f"({AMINE}).({ACID})>>([*:2][N:1].[C:3]=[O:4])", "its slots are not all joined"),
        (f"{AMINE}.{ACID}>>[C:3]=[O:4]", "the product has no atom of slot 0"),
        (f"{AMINE}.{ACID}>>([*:2][N:1][C:3]=[O:4].Cl)", "a part of the product is bound to no slot"),
        ("[C:1]=O.[N:2]([H])[H]>>[C:1]=[N:2]", "it joins slots by a bond that is not single"),
        (
            "[NH2:1][c:2][c:3][SH:4].[OH][C:5](=O)[*:6]>>[c:2]1[c:3][S:4][C:5]([*:6])=[N:1]1",
            "it closes a ring between slots",
        ),
        (f"{AMINE}.[OH][C:3]=[O:1]>>[*:2][N:1][C:3]", "an atom number stands in two slots"),
    ],
)
def test_what_does_not_compose_is_refused(smarts, reason):
    reaction = Reaction("odd", smarts)
    assert reaction.refusal.startswith(reason)
    assert reaction.halves == []


def test_nonsense_is_an_input_error():
    with pytest.raises(InputError, match="Reaction odd: RDKit cannot read the SMARTS"):
        Reaction("odd", "[N:1>>")


def test_reactions_go_to_other_processes():
    reaction = Reaction("amide", SPACES["amide"][0])
    assert pickle.loads(pickle.dumps(reaction)).halves == reaction.halves

"""Reactions whose products cannot be assembled from synthons are refused with the reason."""

from __future__ import annotations

import pickle

import pytest

from daskrf.errors import InputError
from daskrf.spaces.reactions import Reaction
from tests.spaces.helpers import RINGS, SPACES

AMINE, ACID = "[N:1]([H])[*:2]", "[OH][C:3]=[O:4]"


@pytest.mark.parametrize("name", SPACES)
def test_reactions_are_cut_at_one_bond_a_slot_or_at_one_more(name):
    smarts, slots = SPACES[name]
    reaction = Reaction(name, smarts)
    assert reaction.refusal == ""
    ring = name in RINGS
    assert sum(len(half.cuts) for half in reaction.halves) == 2 * (len(slots) - 1 + ring)
    assert sum(half.ring is not None for half in reaction.halves) == 2 * ring


@pytest.mark.parametrize(
    ("smarts", "reason"),
    [
        (f"{AMINE}>>[*:2][N:1]C", "it has 1 slot; two or three are supported"),
        (f"{AMINE}.{ACID}>>[*:2][N:1].[C:3]=[O:4]", "it has several products"),
        (f"({AMINE}).({ACID})>>([*:2][N:1].[C:3]=[O:4])", "its slots are not all joined"),
        (f"{AMINE}.{ACID}>>", "it has no product"),
        (f"{AMINE}.{ACID}>>[C:3]=[O:4]", "the product has no atom of slot 0"),
        (f"{AMINE}.{ACID}>>([*:2][N:1][C:3]=[O:4].Cl)", "a part of the product is bound to no slot"),
        ("[C:1]=O.[N:2]([H])[H]>>[C:1]=[N:2]", "it joins slots by a bond that is not single"),
        (f"{AMINE}.{ACID}>>[*:2][N:1]~[C:3]=[O:4]", "it joins slots by a bond that is not single"),
        (f"{AMINE}.{ACID}>>[*:2][N:1]!@[C:3]=[O:4]", "it joins slots by a bond that is not single"),
        (
            "[NH2:1][c:2][c:3][NH2:4].[#6:5][CH:6]=O>>[c:2]1[c:3][N:4][C@H:6]([#6:5])[N:1]1",
            "it sets the stereochemistry of an atom that a slot gives to a ring; leave that open",
        ),
        (
            "[NH2:1][c:2][c:3][NH2:4].O=[C:5]([*:6])[*:7]>>[c:2]1[c:3][N:4][C:5]([*:6])([*:7])[N:1]1",
            "slot 1 gives a ring an atom that is bound to two atoms it keeps",
        ),
        (  # either nitrogen may be bound to the rest of the block
            "[c:2]([OH:1])[c:3][OH:4].[N:5]=[N:6]>>[c:2]1[c:3][O:4][N:5][N:6][O:1]1",
            "slot 1 gives atoms to a ring; number the atom it keeps that these are bound to",
        ),
        (
            "[c:2]([OH:1])[c:3][OH:4].Cl[*:5]>>[c:2]1[c:3][O:4][*:5][O:1]1",
            "slot 1 gives an atom of any element to a ring",
        ),
        (
            "([NH2:1][c:2][c:3]([SH:4]).[c:8]F).([C:5]=O.[NH2:6])>>([c:2]1[c:3][s:4][c:5][n:1]1.[c:8][N:6])",
            "slot 1 gives atoms to a ring; number the atom it keeps that these are bound to",
        ),
        (
            "([N:1][H].[O:2][H].[S:7][H]).([C:3]Br.[C:4]Cl.[C:8]=O).([C:5]I.[C:6]F)"
            ">>([N:1][C:3].[C:4][C:5].[C:6][O:2].[S:7][C:8])",
            "two slots are joined by 2 bonds, and both to the third; of each pair, one bond is supported",
        ),
        (
            "([N:1][H].[O:2][H].[S:3][H]).([C:4]Br.[C:5]Cl.[C:6]I)>>([N:1][C:4].[O:2][C:5].[S:3][C:6])",
            "two slots are joined by 3 bonds; one, or two of one pair of slots, are supported",
        ),
        (f"{AMINE}.[OH][C:3]=[O:1]>>[*:2][N:1][C:3]", "an atom number stands in two slots"),
    ],
)
def test_what_does_not_compose_is_refused(smarts, reason):
    reaction = Reaction("odd", smarts)
    assert reaction.refusal.startswith(reason)
    assert reaction.halves == []


@pytest.mark.parametrize(
    ("smarts", "owner"),
    [
        (SPACES["triazole"][0], 0),
        (  # both ends of the alkyne are bound to what its block keeps, so that the azide gives its nitrogens
            "[*:1][C:2]#[C:3][*:4].[*:5][N:6]=[N+:7]=[N-:8]"
            ">>[*:5][n:6]1[n+0:7][n+0:8][c:2]([*:1])[c:3]1[*:4]",
            0,
        ),
        ("[C:2]#[C:3].[*:5][N:6]=[N+:7]=[N-:8]>>[*:5][n:6]1[n+0:7][n+0:8][c:2][c:3]1", 0),
        ("[*:5][N:6]=[N+:7]=[N-:8].[C:2]#[C:3]>>[*:5][n:6]1[n+0:7][n+0:8][c:2][c:3]1", 1),
    ],
)
def test_a_ring_is_of_the_slot_that_the_others_can_give_their_atoms_to(smarts, owner):
    assert [bool(half.donated) for half in Reaction("ring", smarts).halves] == [owner != 0, owner != 1]


def test_a_block_gives_atoms_to_a_ring():
    halves = Reaction("triazole", SPACES["triazole"][0]).halves
    assert [half.donated for half in halves] == [(), ((2, 1), (3, 0))]
    assert [half.smarts.partition(">>")[2] for half in halves] == [
        "([#6:1][n:2]1[n&+0:3][n&+0:4]c([c&H1]1)-[1*])",
        "([*:1][*:2].[*:3])",
    ]


def test_reactions_by_rings_of_one_slot_are_cut_as_before():
    halves = Reaction("azetidine", SPACES["azetidine"][0]).halves
    assert [half.donated for half in halves] == [(), ()]


@pytest.mark.parametrize(
    ("smarts", "left"),
    [
        ("[C:3](F)([*:4])[*:5]>>[*:2][N:1][C@:3](O)([*:4])[*:5]", "([*:2][C@@:1]([*:3])(O)-[1*])"),
        ("[C:3](F)([*:4])[*:5]>>[*:2][N:1][C@@:3](O)([*:4])[*:5]", "([*:2][C@:1]([*:3])(O)-[1*])"),
        (r"Br[C:3]=[C:4][*:5]>>[*:2][N:1]/[C:3]=[C:4]/[*:5]", r"([C:1](=[C:2]\[*:3])/[1*])"),
        (r"Br[C:3]=[C:4][*:5]>>[*:2][N:1]/[C:3]=[C:4]\[*:5]", r"([C:1](=[C:2]/[*:3])/[1*])"),
    ],
)
def test_a_half_has_the_stereochemistry_at_its_new_bond(smarts, left):
    amine, block = Reaction("stereo", f"{AMINE}.{smarts}").halves
    assert amine.smarts.endswith(">>([N:1]([*:2])-[1*])")
    assert block.smarts.partition(">>")[2] == left


def test_nonsense_is_an_input_error():
    with pytest.raises(InputError, match="Reaction odd: RDKit cannot read the SMARTS"):
        Reaction("odd", "[N:1>>")


def test_reactions_go_to_other_processes():
    reaction = Reaction("amide", SPACES["amide"][0])
    assert pickle.loads(pickle.dumps(reaction)).halves == reaction.halves

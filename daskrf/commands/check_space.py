"""Space -> what it holds, and whether its products agree with those of RDKit."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass

from daskrf.errors import InputError
from daskrf.molecules import FingerprintSpec
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.notebook import Shown
from daskrf.report.tabulation import text_table
from daskrf.seeds import check_seed
from daskrf.spaces.comparison import compare
from daskrf.spaces.cut import CutSpace, cut, n_cuts
from daskrf.spaces.spacefiles import read_space
from daskrf.spaces.synthons import check_spec
from daskrf.workers.progress import Progress

CLI = Command(
    "daskrf check-space real_space/ --radius 2",
    step=10,
    options={"sample": Option(least=1), "seed": Option(least=0)},
)


@dataclass(frozen=True)
class CheckedSlot:
    """The building blocks of a slot.

    Attributes
    ----------
    blocks, synthons : int
        Number of blocks, and of the synthons cut from them: one for each site of a block.
    refused : dict of str to list of str
        IDs of the blocks without a synthon, by the reason.
    """

    blocks: int
    synthons: int
    refused: dict[str, list[str]]


@dataclass(frozen=True)
class CheckedReaction:
    """The checks of one reaction.

    Attributes
    ----------
    name : str
    slots : tuple of CheckedSlot
        None if the reaction cannot be cut.
    products : int
        Combinations of synthons; 0 if the reaction is refused.
    combinations, compared : int
        Random combinations of blocks that were compared with RDKit, and their products.
    refusal : str
        Why the reaction is refused, or an empty string.
    """

    name: str
    slots: tuple[CheckedSlot, ...]
    products: int
    combinations: int
    compared: int
    refusal: str


@dataclass(frozen=True)
class SpaceReport(Shown):
    """What `check_space` found.

    Attributes
    ----------
    space : str
    blocks, synthons : int
        Number of building blocks, and of distinct synthons.
    fingerprints : str
        The kind of fingerprints that was compared.
    reacted : bool
        Whether the space has reactions to run. A table of synthons has none.
    reactions : tuple of CheckedReaction
    notes : tuple of str
        What was assumed when the space was read.
    """

    space: str
    blocks: int
    synthons: int
    fingerprints: str
    reacted: bool
    reactions: tuple[CheckedReaction, ...]
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if a reaction is refused, else 0."""
        return int(any(reaction.refusal for reaction in self.reactions))

    def __str__(self) -> str:
        header = ["reaction", "products", "blocks by slot", "synthons by slot", "compared"]
        rows = [
            [
                reaction.name,
                reaction.products,
                " x ".join(f"{slot.blocks:,}" for slot in reaction.slots) or "-",
                " x ".join(f"{slot.synthons:,}" for slot in reaction.slots) or "-",
                "refused" if reaction.refusal else f"{reaction.compared:,} equal",
            ]
            for reaction in self.reactions
        ]
        usable = [reaction for reaction in self.reactions if not reaction.refusal]
        lines = [
            f"{self.space}: {amount(len(self.reactions), 'reactions')}, {amount(self.blocks, 'blocks')}, "
            f"{amount(self.synthons, 'synthons')}",
            f"{amount(sum(r.products for r in usable), 'products')} of {amount(len(usable), 'reactions')}; "
            "a product that can be made in several ways is counted for each",
            *self.notes,
            "",
            text_table(header, rows),
            "",
            "compared: products of random blocks. "
            + (
                "Joined synthons equal the products of RDKit's RunReactants, and the "
                if self.reacted
                else "The "
            )
            + f"{self.fingerprints} counts of each product are the sums over its synthons.",
        ]
        for reaction in self.reactions:
            if reaction.refusal:
                lines.append(f"reaction {reaction.name} is refused: {reaction.refusal}")
            for number, slot in enumerate(reaction.slots):
                where = f"reaction {reaction.name}, slot {number}"
                lines += [
                    f"{where}: {amount(len(ids), 'blocks')} left out, such as {ids[0]}: {reason}"
                    for reason, ids in slot.refused.items()
                ]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return everything as an object of JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2)


def check_space(
    space: str | os.PathLike[str],
    *,
    spec: FingerprintSpec | None = None,
    sample: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> SpaceReport:
    """Check a make-on-demand space, and compare its products with RDKit's.

    A space is one of three things. A folder with three tables, .csv or .tsv, which may be gzipped: reactions
    (columns reaction, reactants, product, as SMARTS), blocks (block, smiles) and slots (reaction, slot,
    block: which blocks fit which slot, counted from 0). Or a folder with the SMARTS of one reaction in a file
    ``*.smarts`` and a file ``*.smi`` of reagents for each slot, in the order of their names. Or one table of
    synthons with the columns SMILES, synton_id, synton# and reaction_id, whose attachment points are
    ``[1*]``, ``[*:1]`` or ``[U]``, and so on. Products are never listed. Each block is cut to its synthon,
    the atoms that the reaction leaves of it. Products of random blocks are compared with RDKit's, and so are
    their fingerprints, which are sums over synthons. A reaction with any difference is refused, and the exit
    code is then 1.

    Parameters
    ----------
    space : path
        The folder, or the table of synthons.
    spec : FingerprintSpec, optional
        Fingerprints to compare: Morgan counts of radius 1 or 2. Default: radius 1.
    sample : int
        Random combinations of blocks to compare for each reaction.
    seed : int
        Seed of the random combinations.
    progress : Progress, optional
        As in `fingerprint`.

    Raises
    ------
    InputError
        If the tables cannot be read, or the fingerprints are not sums over synthons.
    """
    progress, spec, seed = progress or Progress(), spec or FingerprintSpec("morgan"), check_seed(seed)
    if sample < 1:
        raise InputError(f"sample must be at least 1, not {sample}.")
    check_spec(spec)
    tables = read_space(space)
    progress.start("cut", n_cuts(tables), "blocks")
    cut_space = cut(tables, spec, progress.advance)
    progress.finish()
    progress.start("compare", len(tables.reactions), "reactions")
    checked = []
    for reaction in range(len(tables.reactions)):
        checked.append(_checked(cut_space, reaction, sample, seed))
        progress.advance(1)
    progress.finish()
    reacted = any(reaction.smarts for reaction in tables.reactions)
    return SpaceReport(
        str(tables.path),
        len(tables.blocks),
        len(cut_space.smiles),
        spec.name,
        reacted,
        tuple(checked),
        tuple(tables.notes),
    )


def _checked(cut_space: CutSpace, number: int, sample: int, seed: int) -> CheckedReaction:
    """Check one reaction."""
    space, reaction, entries = cut_space.space, cut_space.space.reactions[number], cut_space.entries[number]
    slots = tuple(
        CheckedSlot(
            len(space.slots[number, slot]),
            len(entry.block),
            {reason: [space.blocks[block] for block in blocks] for reason, blocks in entry.refused.items()},
        )
        for slot, entry in enumerate(entries)
    )
    refusal = reaction.refusal
    if not refusal and not cut_space.sizes[number]:
        slot = next(slot for slot, entry in enumerate(entries) if not len(entry.block))
        refusal = f"no block of slot {slot} has a synthon"
    if refusal:
        return CheckedReaction(reaction.name, slots, 0, 0, 0, refusal)
    done = compare(cut_space, number, sample, seed)
    products = 0 if done.difference else cut_space.sizes[number]
    return CheckedReaction(reaction.name, slots, products, done.combinations, done.products, done.difference)

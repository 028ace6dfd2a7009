"""Molecules that must not be chosen: those with labels, and those in given files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daskrf.files.backend import as_path
from daskrf.jobs.job import Run
from daskrf.models.targets import Measured
from daskrf.molecules.structures import LEVEL_WORDS, Level
from daskrf.quantities import amount
from daskrf.screens.passing import Excluded
from daskrf.screens.request import SuggestRequest
from daskrf.sources.wholefile import smiles_in
from daskrf.tables import given_words

_MOST_LABELLED = 1_000_000  # labelled molecules excluded by structure: RDKit takes minutes for them
_MOST_COMPARED_WIDELY = 200_000  # by parent, tautomer or skeleton: 0.5 ms each


@dataclass(frozen=True)
class Exclusions:
    """Molecules to leave out by structure.

    Attributes
    ----------
    molecules : tuple of Excluded
    level : {"structure", "parent", "tautomer", "skeleton"}
        What counts as the same molecule.
    notes : tuple of str
    """

    molecules: tuple[Excluded, ...]
    level: Level
    notes: tuple[str, ...]


def labelled_exclusions(run: Run, measured: Measured, level: Level, *, by_rows: bool) -> Exclusions:
    """Return the labelled molecules, to be left out by structure.

    Parameters
    ----------
    run : Run
        Gets the notes.
    measured : Measured
    level : {"structure", "parent", "tautomer", "skeleton"}
        If there are very many molecules, they are compared by structure instead.
    by_rows : bool
        Whether this library's rows of labelled molecules are known, and are left out too.
    """
    smiles, notes = measured.labelled_molecules, list[str]()
    many = len(smiles) > _MOST_LABELLED
    reason = f"there are {len(smiles):,}" if many else measured.reason
    if reason:
        rows = "by their rows in this library" if by_rows else "as far as known"
        notes.append(f"labelled molecules are left out {rows}, and not all by structure: {reason}")
    distinct = list(dict.fromkeys(filter(None, smiles)))
    if level != "structure" and _MOST_COMPARED_WIDELY < len(distinct) <= _MOST_LABELLED:
        notes.append(f"the {len(distinct):,} labelled molecules are too many to compare by {level}")
        level = "structure"
    molecules: Sequence[Excluded] = ()
    if distinct and not many:
        notes.append(f"labelled molecules are left out by {LEVEL_WORDS[level]}")
    for note in notes:
        run.progress.note(note)
    if distinct and not many:
        molecules = [Excluded.of("a labelled molecule", distinct, run.work, level)]
    return Exclusions(tuple(molecules), level, tuple(notes))


def batch_exclusions(run: Run, request: SuggestRequest, measured: Measured, *, by_rows: bool) -> Exclusions:
    """Return the molecules that a batch leaves out: the labelled ones, and those in given files."""
    labelled = labelled_exclusions(run, measured, request.demands.exclude_by, by_rows=by_rows)
    molecules, notes = [*labelled.molecules], [*labelled.notes]
    for path in request.demands.exclude:
        accept_rejects = request.input.accept_rejects
        smiles, unread = smiles_in(as_path(path), run.progress, accept_rejects=accept_rejects)
        name = given_words(path) or as_path(path).name
        how = LEVEL_WORDS[labelled.level]
        lines = [f"{amount(len(smiles), 'molecules')} of {name} to leave out by {how}"]
        lines += [f"not left out: {unread}"] if unread else []
        for line in lines:
            run.progress.note(line)
        notes += lines
        molecules.append(Excluded.of(f"a molecule of {name}", smiles, run.work, labelled.level))
    return Exclusions(tuple(molecules), labelled.level, tuple(notes))

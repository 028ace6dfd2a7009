"""Similarity to some molecules as a filter: above a threshold, or among the nearest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from daskrf.errors import OptionError, printable
from daskrf.molecules.counts.fingerprints import Fingerprinter
from daskrf.molecules.counts.spec import FingerprintSpec

SIMILARITY_SPEC = FingerprintSpec("morgan:2")
"""Counts that are compared."""

LEAST_SIMILARITY = 0.5
"""Threshold where no other one is set."""

_SHOWN = 60  # characters of a SMILES in a message
_NAMED = 3  # molecules that are named; of more, the number


@dataclass(frozen=True)
class SimilarTo:
    """Molecules that a molecule must be similar to, at least one of them.

    Similarity is the Tanimoto similarity of Morgan counts of radius 2, sum of minima over sum of maxima.

    Attributes
    ----------
    smiles : tuple of str
    least : float or None
        Smallest similarity.
    nearest : int or None
        Only this many molecules of a space, the most similar to each of `smiles`, pass.
    """

    smiles: tuple[str, ...]
    least: float | None = LEAST_SIMILARITY
    nearest: int | None = None

    @classmethod
    def of(
        cls, smiles: str | Sequence[str], least: float | None = None, nearest: int | None = None
    ) -> SimilarTo | None:
        """Return what options ask for; without `least` and `nearest`, the threshold is 0.5.

        Raises
        ------
        OptionError
            If one of `smiles` is not a molecule, or a number is impossible.

        Examples
        --------
        >>> SimilarTo.of("CCO")
        SimilarTo(smiles=('CCO',), least=0.5, nearest=None)
        >>> SimilarTo.of(()) is None
        True
        """
        texts = tuple(dict.fromkeys([smiles] if isinstance(smiles, str) else smiles))
        if not texts:
            if least is not None or nearest is not None:
                raise OptionError(
                    "--least-similarity and --nearest say how similar molecules are to be: add --similar-to "
                    "SMILES, or leave them out."
                )
            return None
        if least is not None and not (math.isfinite(least) and 0 < least <= 1):
            raise OptionError(f"least_similarity must be above 0 and up to 1, not {least}.")
        if nearest is not None and nearest < 1:
            raise OptionError(f"nearest must be at least 1, not {nearest}.")
        for at, reason in Fingerprinter(SIMILARITY_SPEC)(list(texts)).rejects:
            raise OptionError(
                f"The molecule to compare with, '{printable(texts[at], _SHOWN)}', cannot be used: {reason}."
            )
        return cls(texts, LEAST_SIMILARITY if least is None and nearest is None else least, nearest)

    @property
    def words(self) -> str:
        """What passes, in words.

        Examples
        --------
        >>> SimilarTo(("CCO", "CCN"), 0.4).words
        'similarity to CCO or CCN >= 0.4'
        >>> SimilarTo(("CCO",), None, 1000).words
        'among the 1,000 nearest to CCO'
        """
        some = [printable(text, _SHOWN) for text in self.smiles]
        to = " or ".join(some) if len(some) <= _NAMED else f"one of {len(some):,} molecules"
        limits = [] if self.least is None else [f"similarity to {to} >= {self.least:g}"]
        limits += [] if self.nearest is None else [f"among the {self.nearest:,} nearest to {to}"]
        return " and ".join(limits)

    def test(self) -> Callable[[Chem.Mol], bool]:
        """Return a function that tells whether a molecule reaches the threshold.

        Examples
        --------
        >>> test = SimilarTo(("CCO",), 0.5).test()
        >>> test(Chem.MolFromSmiles("CCCO")), test(Chem.MolFromSmiles("c1ccccc1"))
        (True, False)
        """
        counts = rdFingerprintGenerator.GetMorganGenerator(radius=2).GetSparseCountFingerprint
        queries = [counts(Chem.MolFromSmiles(text)) for text in self.smiles]
        least = 0.0 if self.least is None else self.least
        return lambda molecule: max(DataStructs.BulkTanimotoSimilarity(counts(molecule), queries)) >= least

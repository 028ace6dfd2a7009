"""A batch, chosen by testing every molecule of a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache

from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from rdkit.Chem.Scaffolds import MurckoScaffold

_MORGAN = rdFingerprintGenerator.GetMorganGenerator(radius=2)


@cache
def _bits(smiles: str) -> frozenset[int]:
    return frozenset(_MORGAN.GetSparseFingerprint(Chem.MolFromSmiles(smiles)).GetOnBits())


def similarity(a: str, b: str) -> float:
    """Return the Tanimoto similarity of Morgan fingerprints of radius 2, presence only, not folded."""
    x, y = _bits(a), _bits(b)
    return len(x & y) / len(x | y) if x | y else 0.0


@cache
def _canonical(smiles: str) -> str:
    return str(Chem.CanonSmiles(smiles))


@cache
def scaffold(smiles: str) -> str:
    """Return the Murcko scaffold without stereochemistry."""
    molecule = Chem.MolFromSmiles(smiles)
    Chem.RemoveStereochemistry(molecule)
    return Chem.MolToSmiles(MurckoScaffold.GetScaffoldForMol(molecule))


def batch(
    smiles: Sequence[str],
    scores: Sequence[float],
    n: int,
    passes: Callable[[str], bool] = lambda text: True,
    excluded: Collection[str] = (),
    max_similarity: float = 1.0,
    per_scaffold: int = 10**9,
    caps: Sequence[tuple[Sequence[object], int]] = (),
    prices: Sequence[float] | None = None,
    budget: float = float("inf"),
) -> list[int]:
    """Return the positions of the picks: the best that may be taken, one after the other."""
    unwanted = {_canonical(text) for text in excluded}
    picks: list[int] = []
    times: Counter[str] = Counter()
    for i in sorted(range(len(smiles)), key=lambda i: (-scores[i], i)):
        if len(picks) == n:
            break
        name = _canonical(smiles[i])
        if name in unwanted or not passes(smiles[i]):
            continue
        if any(similarity(smiles[i], smiles[pick]) > max_similarity for pick in picks):
            continue
        own = scaffold(smiles[i])
        if own and times[own] == per_scaffold:
            continue
        if any(sum(values[p] == values[i] for p in picks) >= most for values, most in caps):
            continue
        if prices is not None and sum(prices[p] for p in [*picks, i]) > budget:
            continue
        unwanted.add(name)
        times[own] += 1
        picks.append(i)
    return picks


def as_damage(mean: Sequence[float], covariance: object, noise: float, kappa: float, n: int) -> list[int]:
    """Return the picks of a batch by an upper bound: the posterior is computed anew after each pick."""
    import numpy as np

    C, picks = np.asarray(covariance), []
    for _ in range(n):
        K = C[np.ix_(picks, picks)] + noise * np.eye(len(picks))
        explained = C[:, picks] @ np.linalg.solve(K, C[picks]) if picks else np.zeros_like(C)
        score = np.asarray(mean) + kappa * np.sqrt(np.maximum(np.diag(C - explained), 0.0))
        score[picks] = -np.inf
        picks.append(int(score.argmax()))
    return picks

"""The operations of :class:`daskrf.engine.Engine` on the CPU, compiled by numba."""

from daskrf.engine.cpu.bonds import bond_counts
from daskrf.engine.cpu.counting import environment_counts, pair_counts
from daskrf.engine.cpu.countsketch import first_term, product_term
from daskrf.engine.cpu.hadamard import hadamard_transform, project_blocks
from daskrf.engine.cpu.keys import find_keys, hash_texts, number_keys
from daskrf.engine.cpu.popcount import add_parities, bit_gram, bit_means, bit_sums
from daskrf.engine.cpu.reals import add_squares, cosines, project, radial_values
from daskrf.engine.cpu.sharedcolumns import overlaps
from daskrf.engine.cpu.similar import similar_pairs
from daskrf.engine.cpu.smiles import read_smiles, ring_table, starts_soon
from daskrf.engine.cpu.tiles import hash_bits, hash_levels, random_products

__all__ = [
    "add_parities",
    "add_squares",
    "bit_gram",
    "bit_means",
    "bit_sums",
    "bond_counts",
    "cosines",
    "environment_counts",
    "find_keys",
    "first_term",
    "hadamard_transform",
    "hash_bits",
    "hash_levels",
    "hash_texts",
    "number_keys",
    "overlaps",
    "pair_counts",
    "product_term",
    "project",
    "project_blocks",
    "radial_values",
    "random_products",
    "read_smiles",
    "ring_table",
    "similar_pairs",
    "starts_soon",
]

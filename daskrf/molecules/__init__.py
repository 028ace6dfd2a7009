"""Molecules: SMILES, fingerprints, structures, properties and drawings of them.

Names are imported on first use, so a process that needs one module does not load the others. RDKit runs in
the helper processes of `daskrf.molecules.isolation`; code that reads files does not load it.
"""

from typing import TYPE_CHECKING

from daskrf.exports import lazy

if TYPE_CHECKING:
    from daskrf.molecules.counts.fingerprints import FingerprintBlock as FingerprintBlock
    from daskrf.molecules.counts.fingerprints import Fingerprinter as Fingerprinter
    from daskrf.molecules.counts.fingerprints import rdkit_version as rdkit_version
    from daskrf.molecules.counts.lingo import lingo_counts as lingo_counts
    from daskrf.molecules.counts.spec import FingerprintSpec as FingerprintSpec
    from daskrf.molecules.extensions import clean_smiles as clean_smiles

__getattr__, __dir__ = lazy(__name__, __file__)

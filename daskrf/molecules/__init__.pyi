from daskrf.molecules.counts.fingerprints import FingerprintBlock as FingerprintBlock
from daskrf.molecules.counts.fingerprints import Fingerprinter as Fingerprinter
from daskrf.molecules.counts.fingerprints import rdkit_version as rdkit_version
from daskrf.molecules.counts.lingo import lingo_counts as lingo_counts
from daskrf.molecules.counts.spec import FingerprintSpec as FingerprintSpec
from daskrf.molecules.extensions import clean_smiles as clean_smiles
from daskrf.molecules.smilesfingerprints import SmilesFingerprints as SmilesFingerprints

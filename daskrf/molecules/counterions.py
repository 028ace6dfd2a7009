"""Acids, bases and solvents of salts and solvates, which are rarely the molecule of interest."""

from __future__ import annotations

_ACIDS = """
OC(O)=O OC=O CC(O)=O OC(=O)C(F)(F)F OC(=O)C(Cl)(Cl)Cl CCC(O)=O CCCC(O)=O OC(=O)CO CC(O)C(O)=O CC(=O)C(O)=O
OC(=O)C(O)=O OC(=O)CC(O)=O OC(=O)CCC(O)=O OC(=O)CCCC(O)=O OC(=O)CCCCC(O)=O OC(=O)CCCCCCCCC(O)=O
OC(=O)C=CC(O)=O OC(=O)CC(O)C(O)=O OC(=O)C(O)C(O)C(O)=O OC(=O)CC(O)(CC(O)=O)C(O)=O OC(=O)CCC(=O)C(O)=O
OC(=O)C(OC(=O)c1ccccc1)C(OC(=O)c1ccccc1)C(O)=O OC(=O)C(OC(=O)c1ccc(C)cc1)C(OC(=O)c1ccc(C)cc1)C(O)=O
OCC(O)C(O)C(O)C(O)C(O)=O OCC(O)C(O)C(O)C(O)C(O)C(O)=O OC(=O)C(O)C(O)C(O)C(O)C(O)=O
OCC1OC(OC(C(O)CO)C(O)C(O)C(O)=O)C(O)C(O)C1O O=CC(O)C(O)C(O)C(O)C(O)=O OC1OC(C(O)=O)C(O)C(O)C1O
OC(=O)c1ccccc1 OC(=O)c1ccccc1O OC(=O)c1ccc(O)cc1 OC(=O)c1cc(O)ccc1O OC(=O)C(O)c1ccccc1 OC(=O)C=Cc1ccccc1
OC(=O)c1cccnc1 OC(=O)CNC(=O)c1ccccc1 OC(=O)C1CCC(=O)N1 OC(=O)c1ccc2ccccc2c1O
OC(=O)c1cc2ccccc2c(Cc2c(O)c(C(O)=O)cc3ccccc23)c1O
CCCCCCCC(O)=O CCCCCCCCCC(O)=O CCCCCCCCCCCC(O)=O CCCCCCCCCCCCCC(O)=O CCCCCCCCCCCCCCCC(O)=O
CCCCCCCCCCCCCCCCCC(O)=O CCCCCCCCC=CCCCCCCCC(O)=O C=CCCCCCCCCC(O)=O
CS(O)(=O)=O CCS(O)(=O)=O OS(=O)(=O)C(F)(F)F OCCS(O)(=O)=O OS(=O)(=O)CCS(O)(=O)=O OS(=O)(=O)c1ccccc1
Cc1ccc(S(O)(=O)=O)cc1 OS(=O)(=O)c1ccc(Cl)cc1 OS(=O)(=O)c1ccc2ccccc2c1 OS(=O)(=O)c1cccc2ccccc12
OS(=O)(=O)c1cccc2c1cccc2S(O)(=O)=O CC1(C)C2CCC1(CS(O)(=O)=O)C(=O)C2 OS(=O)(=O)NC1CCCCC1
COS(O)(=O)=O CCOS(O)(=O)=O CCCCCCCCCCCCOS(O)(=O)=O O=S(=O)(NS(=O)(=O)C(F)(F)F)C(F)(F)F
Oc1c([N+](=O)[O-])cc([N+](=O)[O-])cc1[N+](=O)[O-] SC#N N=C=S OC#N N=C=O C#N
c1ccc([B-](c2ccccc2)(c2ccccc2)c2ccccc2)cc1 F[B-](F)(F)C(F)(F)F
OC(=O)CCC(N)C(O)=O OC(=O)CC(N)C(O)=O
"""

_BASES = """
NCCCCC(N)C(O)=O NC(=N)NCCCC(N)C(O)=O CNCC(O)C(O)C(O)C(O)CO NC(CO)(CO)CO C[N+](C)(C)CCO NC(N)=O
NCCO OCCNCCO OCCN(CCO)CCO NCCN CCNCC CCN(CC)CC CCN(C(C)C)C(C)C CC(C)(C)N C1CCC(NC2CCCCC2)CC1 C1CNCCN1 c1ccncc1
C(NCCNCc1ccccc1)c1ccccc1 C[N+](C)(C)C CC[N+](CC)(CC)CC CCCC[N+](CCCC)(CCCC)CCCC
"""

_SOLVENTS = """
CO CCO CCCO CC(C)O CCCCO CC(C)CO CCC(C)O CC(C)(C)O OCCO CC(O)CO OCC(O)CO COCCO COCCOC
CC(C)=O CCC(C)=O CC#N C[N+](=O)[O-] CN(C)C=O CC(=O)N(C)C CN1CCCC1=O NC=O CS(C)=O O=S1(=O)CCCC1
ClCCl ClC(Cl)Cl ClC(Cl)(Cl)Cl ClCCCl C1CCOC1 CC1CCCO1 C1COCCO1 CCOCC CC(C)OC(C)C COC(C)(C)C
COC(C)=O CCOC(C)=O CC(C)OC(C)=O CCCCOC(C)=O CCOC=O
CCCCC CCCCCC CCCCCCC C1CCCCC1 c1ccccc1 Cc1ccccc1 Cc1ccccc1C Cc1cccc(C)c1 Cc1ccc(C)cc1 Clc1ccccc1
OCC(F)(F)F O=C=O S=C=S [C-]#[O+]
"""

COUNTERIONS = tuple(f"{_ACIDS} {_BASES} {_SOLVENTS}".split())
"""SMILES of fragments to set aside beside another organic one, without charges and stereochemistry.

The list replaces RDKit's own list of salts, so that the same molecules are the same in every RDKit version.
Acids and solvents without carbon need no entry: any fragment without carbon is set aside.
"""

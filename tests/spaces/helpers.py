"""Small spaces, written as tables."""

from __future__ import annotations

from pathlib import Path

AMIDE = "[*:1][N:2]([H])[*:3].[OH1][C:4]([*:5])=[O:6]>>[*:5][C:4](=[O:6])[N:2]([*:1])[*:3]"
BOC = (
    "(CC(C)(C)OC(=O)[N:1]([*:2])[*:3].[*:4][N:5]([H])[*:6]).([OH1][C:7]([*:8])=[O:9]).([OH1][C:10]([*:11])=[O:12])"
    ">>([*:4][N:5]([*:6])[C:7](=[O:9])[*:8].[*:3][N:1]([*:2])[C:10](=[O:12])[*:11])"
)
UREA = "[*:1][N:2]([H])[H:3].[*:4][N:5]([H])[*:6]>>O=C([N:2]([*:1])[H:3])[N:5]([*:4])[*:6]"
OXAMIDE = "[*:1][N:2]([H])[*:3].[*:4][N:5]([H])[H:6]>>O=C(C(=O)[N:2]([*:1])[*:3])[N:5]([*:4])[H:6]"
SULFONAMIDE = (
    "[*:1][N:2]([H])[*:3].[O:4]=[S:5](=[O:6])([F,Cl,Br,I])[*:7]>>[O:4]=[S:5](=[O:6])([*:7])[N:2]([*:1])[*:3]"
)
ESTER = "[OH1:1][C:2]([*:3])=[O:4].[F,Cl,Br,I][*:5]>>[O:4]=[C:2]([*:3])[O:1][*:5]"
AMINE = "[*:1][N:2]([H])[*:3].[F,Cl,Br,I][*:4]>>[*:1][N:2]([*:3])[*:4]"
AZETIDINE = (  # the first block closes a ring on its own
    "[H][N:1]([H])[C:2][C:3][C:4]Br.[OH1][C:5]([*:6])=[O:7]>>[N:1]1([C:2][C:3][C:4]1)[C:5]([*:6])=[O:7]"
)
IMIDE = (  # two cuts at one atom
    "[N:1]([H])([H])[*:2].[OH1][C:3]([*:4])=[O:5].[OH1][C:6]([*:7])=[O:8]"
    ">>[N:1]([C:3]([*:4])=[O:5])([C:6]([*:7])=[O:8])[*:2]"
)
QUINAZOLINONE = (  # the first block has the ring that the reaction makes; its other atoms are new
    "N[c:4][c:3]C(O)=O.[#6:1][NH2].[#6:2]C(=O)[OH]>>[C:2]c1n[c:4][c:3]c(=O)n1[C:1]"
)
BENZIMIDAZOLE = (  # the second block gives an atom to the ring
    "[NH:1]([#6:7])[c:2][c:3][NH2:4].[C;X3:5](=O)([OH])[#6:6]>>[c:2]1[c:3][n:4][c:5]([#6:6])[n:1]1[#6:7]"
)
TRIAZOLE = (  # the second block gives two, and one of them has no other bond
    "[#6:1][N:2]=[N+:3]=[N-:4].[*:5][C:6]#[C;H1:7]>>[#6:1][n:2]1[n+0:3][n+0:4][c:6]([*:5])[cH:7]1"
)
BENZOTHIAZOLE = (  # what the second block keeps is not named
    "[NH2:1][c:2][c:3][SH:4].[H][C:5]=O>>[c:2]1[c:3][s:4][c:5][n:1]1"
)
THIAZOLE = (  # and what the second block gives has a substituent
    "[#6:6][C:1](=O)[C;H1,H2:5]([*:7])[Cl,Br].[NH2:2][C:3](=[S:4])[*:8]>>[c:1]1([#6:6])[n:2][c:3]([*:8])[s:4][c:5]1[*:7]"
)
INVERSION = (  # of a centre at the new bond
    "[C@:1]([#6:2])([*:3])([*:4])Br.[N:5]([H])[*:6]>>[#6:2][C@@:1]([N:5][*:6])([*:3])[*:4]"
)
ADDITION = (  # two new bonds at a new centre
    "[CH:1](=O)[#6:2].[N:3]([H])[*:4].[c:5]B(O)O>>[#6:2][C@H:1]([N:3][*:4])[c:5]"
)
CENTRE = (  # beside the atom that the second block gives to the ring
    "[NH:1]([#6:7])[c:2][c:3][NH2:4].[C;X3:5](=O)([OH])[CH:6]([*:8])[F,Cl:9]"
    ">>[c:2]1[c:3][n:4][c:5]([C@H:6]([*:9])[*:8])[n:1]1[#6:7]"
)
PYRROLIDINE = "[NH2:1][*:2].[#6:3][CH]=O>>[*:2][N:1]1C[C@H](O)C[C@@H]1[#6:3]"  # a ring with centres is added
OLEFIN = r"[#6;$(C=C),c:1]Br.[CH2:2]=[CH:3][*:4]>>[#6:1]/[C:2]=[C:3]\[*:4]"
ENAMINE = (  # four groups at a double bond, two of them of other slots
    r"[*:4][C:1]#[C:2][*:5].[N:3]([H])[*:7].[c:6]B(O)O>>[*:7][N:3]/[C:1]([*:4])=[C:2](/[*:5])[c:6]"
)
POVAROV = (  # two bonds to the alkene, and a ring if its ends stay connected
    "[NH2:1][c:2][cH:3].[*:4][CH:5]=[CH:6][*:7].[#6:9][CH:8]=O"
    ">>[c:2]1[c:3][C:6]([*:7])[C:5]([*:4])[C:8]([#6:9])[N:1]1"
)
QUINOXALINE = (  # the diketone gives two atoms to the ring, and closes another one if it is cyclic
    "[NH2:1][c:2][c:3][NH2:4].[#6:5][C:6](=O)[C:7](=O)[#6:8]"
    ">>[c:2]1[c:3][n:4][c:6]([#6:5])[c:7]([#6:8])[n:1]1"
)
LACTAM = (  # all products have the ring that the two bonds close
    "([N:1]([H])[*:2].[O:3]([H])[C:4]).([OH][C:5]=[O:6].[C:7]Br)>>([*:2][N:1][C:5]=[O:6].[C:4][O:3][C:7])"
)

AMINES = [
    *(
        "N",
        "CN",
        "CNC",
        "C1CN1",
        "CC(C)N",
        "NCCNC",
        "c1cc[nH]c1",
        "Nc1ncc[nH]1",
        "CC(=O)N",
        "NN",
        "C[C@H](N)CC",
    ),
    *("N[C@@H]1C[C@@H]1F", "NC1CC1N", "[2H]C([2H])([2H])N", "NCC[N+](C)(C)C", "NC#N", "N1CCNCC1", "CONC"),
]
PRIMARY = [text for text in AMINES if text not in ("CNC", "C1CN1", "c1cc[nH]c1", "N1CCNCC1", "CONC")]
ACIDS = [
    *("C(=O)O", "CC(=O)O", "OC(=O)C(=O)O", "OC(=O)CC(=O)O", "OC(=O)C(F)(F)F", "OC(=O)/C=C/C", "O=C(O)C1CC1"),
    *("OC(=O)c1ccccc1C(=O)O", "OC(=O)C#C", "OC(=O)[C@H](C)O", "OC(=O)O", "OC(=O)N", "[18OH]C(=O)C"),
]
HALIDES = [
    *(
        "CCl",
        "CI",
        "ClCCl",
        "ClCCBr",
        "FC(F)F",
        "Clc1ncccn1",
        "BrC1CC1",
        "CC(Cl)Br",
        "C/C=C/CCl",
        "ClC#N",
        "ICI",
    ),
    *("Clc1nc(Cl)nc(Cl)n1", "ClCC(F)=O"),
]
SULFONYLS = ["CS(=O)(=O)Cl", "FS(=O)(=O)c1ccccc1", "ClS(=O)(=O)CCS(=O)(=O)Cl", "FS(F)(=O)=O"]
CORES = [
    *("CC(C)(C)OC(=O)NCCN", "CC(C)(C)OC(=O)NN", "CC(C)(C)OC(=O)N1CCNCC1", "CC(C)(C)OC(=O)NCN"),
    *("CC(C)(C)OC(=O)N1CC1N", "CC(C)(C)OC(=O)NCCNC(=O)OC(C)(C)C", "CC(C)(C)OC(=O)N1CC2(C1)CNC2"),
    "CC(C)(C)OC(=O)N[C@@H](C)CNC",
]
ANTHRANILIC = ["Nc1ccccc1C(=O)O", "Nc1cc(C(O)=O)c(N)cc1C(=O)O", "Nc1sccc1C(O)=O", "OC(=O)c1cccnc1N"]
DIAMINES = ["CNc1ccccc1N", "CCNc1cc(C)ccc1N", "Nc1cccnc1NC1CC1", "CNc1cc(N)c(NC)cc1N", "C[C@H](F)Nc1ccccc1N"]
AZIDES = [
    "C[N-][N+]#N",
    "CN=[N+]=[N-]",
    "[N-]=[N+]=NCc1ccccc1",
    "[N-]=[N+]=NCCN=[N+]=[N-]",
    "FCN=[N+]=[N-]",
    "C[C@H](F)N=[N+]=[N-]",
]
ALKYNES = ["CC#C", "C#C", "C#CC1CC1", "C#CCC#C", "C#CC#C", "C#Cc1ccccc1", "C#C[Si](C)(C)C", "C#C[C@@H](C)O"]
THIOLS = ["Nc1ccccc1S", "Nc1cnccc1S", "Nc1cc(F)ccc1S", "Nc1cc(N)c(S)cc1S", "CNc1cc(N)c(S)cn1"]
ALDEHYDES = ["CC=O", "O=CC1CC1", "[2H]C(C)=O", "O=CC=O", "O=Cc1ccccc1", "C/C=C/C=O", "OC=O"]
KETONES = [
    "CC(=O)C(C)Br",
    "O=C(c1ccccc1)C(Cl)CC",
    "CC(=O)C(Br)C(=O)OC",
    "CC(=O)C(Br)C(=O)C(F)Br",
    "CC(=O)CBr",
]
THIOAMIDES = ["NC(=S)NC", "NC(N)=S", "CC(N)=S", "NC(=S)c1ccccc1", "NC(=S)CC(N)=S", "NC(=S)[C@H](C)O", "NC=S"]
ISOTOPES = ["[2H]NC", "[2H]N([2H])C", "[3H]NC", "[2H]NCCN", "[2H]N([3H])C(C)C", "CN"]
BROMIDES = ["NCCCBr", "NC(C)CCBr", "NCC(CN)CBr", "NC1CCC1CBr"]
CENTRES = [
    "C[C@H](F)Br",
    "C[C@](Br)(F)Cl",
    "CC[C@@H](F)Br",
    "CC(F)(Cl)Br",
    "BrC1CC1F",
    "C[C@H](Br)[C@@H](F)Br",
]
HALOACIDS = [
    "OC(=O)C(F)C",
    "OC(=O)C(F)C(Cl)C(=O)O",
    "OC(=O)[C@H](F)CC",
    "OC(=O)[C@@H](Cl)C",
    "OC(=O)C(F)Cl",
    "OC(=O)C1CC1",
    "OC(=O)C(Cl)/C=C/C",
]
BORONIC = ["OB(O)c1ccccc1", "OB(O)c1ccc(B(O)O)nc1", "CC(F)c1ccsc1B(O)O"]
VINYL = ["Brc1ccccc1", "C/C=C/Br", r"C/C=C\Br", "BrC=C", "C/C=C(/C)Br"]
OLEFINS = ["C=CC(=O)OC", "C=Cc1ccccc1", "C=C/C=C/C", r"C=C/C(C)=C\F", "C=CC#N", "C=CC=C", "C=C[C@H](C)F"]
INNER = ["CC#CC", "CC#CF", "FCC#CCF", "C/C=C/C#CC", r"C/C=C\C#C/C=C/C"]
ANILINES = ["Nc1ccccc1", "Nc1cccc(C)c1"]
ALKENES = [
    *(
        "C1C=CCC1",
        "C1=CCC=C1",
        "O=C1C=CC(=O)N1",
        "C1=CC2CCC1C2",
        "C1C=CCCCCC1",
        "C1C=CCO1",
        "C1C=C1",
        "C1C=CC1",
    ),
    *("C/C=C/C", "CC=CC(=O)OC", "C1CC1C=CC", "C1=Cc2ccccc2C1", "C[C@H]1C=C[C@@H](F)C1", "C1=CC=CC=CC=C1"),
    *("O=C1C=CC=CC1", "O=C1C=CCCC1", "c1ccc2c(c1)C=Cc1ccccc12"),
]
DIAMINOARENES = ["Nc1ccccc1N", "Nc1ccc(C)cc1N", "Nc1nccnc1N"]
DIKETONES = [
    *(
        "CC(=O)C(C)=O",
        "CCC(=O)C(=O)c1ccccc1",
        "O=C1CCCCC1=O",
        "O=C1CCCC1=O",
        "O=C1C(=O)CC2CCC1C2",
        "O=C1CCC1=O",
    ),
    *("O=C1CCCCCCCCCC1=O", "O=C1C(=O)C2(C)CCC1C2(C)C", "O=C1C(=O)c2ccccc2C1"),
]
AMINOALCOHOLS = ["NCCO", "NCCCO", "CNCC(C)O", "NC1CCCCC1O", "OC1CCNCC1", "NCC1(CO)CCC1", "Nc1ccccc1CO"]
BROMOACIDS = [
    *("OC(=O)CBr", "OC(=O)CCBr", "OC(=O)C(C)Br", "OC(=O)CCCCBr", "OC(=O)c1ccccc1CBr", "OC(=O)C1CC(Br)C1"),
    *("OC(=O)C(F)(F)C(F)Br", "OC(=O)C1CCC(CBr)CC1"),
]

SPACES = {
    "amide": (AMIDE, [AMINES, ACIDS]),
    "isotopes": ("[N:1]([H])[*:2].[OH][C:3]=[O:4]>>[*:2][N:1][C:3]=[O:4]", [ISOTOPES, ACIDS]),
    "boc": (BOC, [CORES, ACIDS[:6], ACIDS[2:9]]),
    "urea": (UREA, [PRIMARY, AMINES]),
    "oxamide": (OXAMIDE, [AMINES, PRIMARY]),
    "sulfonamide": (SULFONAMIDE, [AMINES, SULFONYLS]),
    "ester": (ESTER, [ACIDS, HALIDES]),
    "amine": (AMINE, [AMINES, HALIDES]),
    "azetidine": (AZETIDINE, [BROMIDES, ACIDS]),
    "imide": (IMIDE, [PRIMARY, ACIDS[:7], ACIDS[2:9]]),
    "quinazolinone": (QUINAZOLINONE, [ANTHRANILIC, PRIMARY, ACIDS]),
    "benzimidazole": (BENZIMIDAZOLE, [DIAMINES, ACIDS]),
    "triazole": (TRIAZOLE, [AZIDES, ALKYNES]),
    "thiazole": (THIAZOLE, [KETONES, THIOAMIDES]),
    "benzothiazole": (BENZOTHIAZOLE, [THIOLS, ALDEHYDES]),
    "inversion": (INVERSION, [CENTRES, AMINES]),
    "centre": (CENTRE, [DIAMINES, HALOACIDS]),
    "addition": (ADDITION, [ALDEHYDES, PRIMARY[:7], BORONIC]),
    "pyrrolidine": (PYRROLIDINE, [PRIMARY, ALDEHYDES]),
    "olefin": (OLEFIN, [VINYL, OLEFINS]),
    "enamine": (ENAMINE, [INNER, [*PRIMARY[1:4], "C/C=C/N"], BORONIC]),
    "povarov": (POVAROV, [ANILINES, ALKENES, ["CC=O", "O=CC1CC1"]]),
    "quinoxaline": (QUINOXALINE, [DIAMINOARENES, DIKETONES]),
    "lactam": (LACTAM, [AMINOALCOHOLS, BROMOACIDS]),
}
RINGS = ("povarov", "quinoxaline", "lactam")
"""Reactions that join two slots by two bonds."""


def write_space(folder: Path, reactions: dict[str, tuple[str, list[list[str]]]]) -> Path:
    """Write the tables of a space: SMARTS and the SMILES of each slot, by reaction. IDs are b0, b1, ..."""
    folder.mkdir(exist_ok=True)
    number: dict[str, int] = {}
    tables = {"reactions": ["reaction\treactants\tproduct"], "slots": ["reaction\tslot\tblock"]}
    for name, (smarts, slots) in reactions.items():
        tables["reactions"].append("\t".join([name, *smarts.split(">>")]))
        for slot, blocks in enumerate(slots):
            for block in blocks:
                tables["slots"].append(f"{name}\t{slot}\tb{number.setdefault(block, len(number))}")
    tables["blocks"] = ["block\tsmiles", *(f"b{i}\t{block}" for block, i in number.items())]
    for name, lines in tables.items():
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return folder

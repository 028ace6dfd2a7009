"""Small spaces, written as the tables that chemists have."""

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
BROMIDES = ["NCCCBr", "NC(C)CCBr", "NCC(CN)CBr", "NC1CCC1CBr"]

SPACES = {
    "amide": (AMIDE, [AMINES, ACIDS]),
    "boc": (BOC, [CORES, ACIDS[:6], ACIDS[2:9]]),
    "urea": (UREA, [PRIMARY, AMINES]),
    "oxamide": (OXAMIDE, [AMINES, PRIMARY]),
    "sulfonamide": (SULFONAMIDE, [AMINES, SULFONYLS]),
    "ester": (ESTER, [ACIDS, HALIDES]),
    "amine": (AMINE, [AMINES, HALIDES]),
    "azetidine": (AZETIDINE, [BROMIDES, ACIDS]),
    "imide": (IMIDE, [PRIMARY, ACIDS[:7], ACIDS[2:9]]),
}


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

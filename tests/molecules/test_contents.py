"""Files that are no tables are refused by what they are, whatever they are called."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from rdkit import Chem

from daskrf.errors import InputError
from daskrf.tables import scan
from daskrf.tables.formats.foreign import refuse_foreign
from tests.molecules.helpers import COMPRESS

ACID = Chem.MolFromSmiles("c1ccccc1C(=O)O")


def archive(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name in names:
            file.writestr(name, "smiles\nCC\n")
    return made.getvalue()


def tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        entry = tarfile.TarInfo("a.smi")
        entry.size = 3
        file.addfile(entry, io.BytesIO(b"CC\n"))
    return made.getvalue()


FOREIGN: dict[str, tuple[bytes, str, str]] = {
    # name: (content, what it is, what to do)
    "MOL2": (b"# made by hand\n@<TRIPOS>MOLECULE\nethanol\n 9 8 1\nSMALL\n", "a MOL2 file", "Open Babel"),
    "PDB": (Chem.MolToPDBBlock(ACID).encode(), "a PDB file", "Open Babel"),
    "PDBQT of a receptor": (
        b"REMARK  Name = receptor\nATOM      1  N   MET A   1      11.4  22.5  33.6  1.00  0.00 N \n",
        "a PDB file",
        "Open Babel",
    ),
    "old Excel": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "an Excel workbook", "save it as CSV"),
    "HTML": (b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>\n", "a web page", "fetch the file again"),
    "JSON": (b'[\n  {"smiles": "CCO"}\n]\n', "JSON", "save it as CSV or Parquet"),
    "JSON lines": (b'{"smiles": "CCO"}\n{"smiles": "CC"}\n', "JSON", "save it as CSV or Parquet"),
    "XML": (b'<?xml version="1.0"?>\n<cml/>\n', "XML", "save it as CSV"),
    "zip": (archive("a.smi"), "a zip archive", "unpack it"),
    "tar": (tar(), "a tar archive", "unpack it"),
    "xz": (b"\xfd7zXZ\0" + bytes(range(256)), "xz-compressed", "xz -d"),
    "numbers": (bytes(4096), "neither text nor Parquet", "UTF-8"),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("ending", [".smi", ".parquet", ".csv.gz", ".smi.bz2", ""])
def test_foreign_content_is_refused_by_name(name: str, ending: str, tmp_path: Path) -> None:
    content, what, advice = FOREIGN[name]
    path = tmp_path / f"a{ending}"
    path.write_bytes(COMPRESS[path.suffix if path.suffix in COMPRESS else ""](content))
    with pytest.raises(InputError, match=f"{path} is {what}") as error:
        scan(path)
    assert advice in str(error.value)
    assert "rename" not in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"CCO ethanol\n",
        b"[Na+].[Cl-] salt\n",
        b"[{CC}] no SMILES, but no JSON either\n",
        b"smiles,remark\nCCO,M  END of V2000\nCC,$$$$\n",
        b"REMARK\tsmiles\nnone\tCCO\nnone\tCC\n",
        b"C\0C A\n",
        b"",
    ],
)
def test_tables_are_no_foreign_content(content: bytes) -> None:
    refuse_foreign(Path("a"), content)


def test_a_file_without_lines_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "a.smi", 0
    path.write_bytes(bytes(20_000_000))
    opened: Callable[..., io.FileIO] = Path.open

    class Counted(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            nonlocal read
            block = super().read(size)
            read += len(block)
            return block

    monkeypatch.setattr(
        Path, "open", lambda self, *_, **__: Counted(str(self)) if self == path else opened(self)
    )
    with pytest.raises(InputError, match="neither text nor Parquet"):
        scan(path)
    assert read < 5_000_000

"""Who has read a molecule, the engine or RDKit, is not seen in any byte of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

import daskrf.commands.fingerprint as fingerprint_module
import daskrf.molecules.counts.fingerprints as fingerprints_module
from daskrf import FingerprintSpec, fingerprint
from daskrf.molecules.counts.agreement import built_in
from daskrf.workers.progress import Progress


class Notes(Progress):
    """The notes of a run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "a.smi"
    odd = ["CC)", "[13CH4]", "[Fe]", "c1cccc1", "CN(=O)=O", "C" * 300, ""]
    path.write_text("".join(f"{text} m{i}\n" for i, text in enumerate([*built_in(), *odd] * 3)))
    return path


@pytest.mark.parametrize("spec", [FingerprintSpec(), FingerprintSpec("morgan:1", size=512, counts=False)])
def test_stores_have_the_same_bytes(
    spec: FingerprintSpec, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for read in (True, False):
        monkeypatch.setattr(fingerprints_module, "is_due", lambda n_seen, read=read: read)
        output = tmp_path / f"store-{read}"
        report = fingerprint(library, output, spec=spec, accept_rejects=True)
        assert report.rejected > 0
        files = [
            path for folder in ("data", "rows") for path in (output / folder).rglob("*") if path.is_file()
        ]
        contents.append({path.relative_to(output): path.read_bytes() for path in files})
        assert len(contents[-1]) >= 7
    assert contents[0] == contents[1]


@pytest.mark.parametrize("agrees", [True, False])
def test_a_job_says_that_this_rdkit_reads_all(
    agrees: bool, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint_module, "MANY", 1)
    monkeypatch.setattr(fingerprint_module, "agrees", lambda spec: agrees)
    notes = Notes()
    fingerprint(library, tmp_path / "store", accept_rejects=True, progress=notes)
    assert any("leaves all reading to RDKit" in line for line in notes.lines) is not agrees


@pytest.mark.parametrize("many", [True, False])
def test_a_large_job_reads_its_first_molecules(
    many: bool, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, calls = len(library.read_text().splitlines()), []
    seen, read = fingerprints_module._Seen(), fingerprints_module.read
    monkeypatch.setattr(fingerprints_module, "_seen", lambda: seen)
    monkeypatch.setattr(fingerprints_module, "MANY", rows if many else rows + 1)
    monkeypatch.setattr(
        fingerprints_module, "read", lambda *given, **named: calls.append(given) or read(*given, **named)
    )
    fingerprint(library, tmp_path / "store", accept_rejects=True)
    assert bool(calls) is many

"""Plain Python gives the same bytes as the compiled code.

It rounds every product and every sum. Compiled code in which they are fused rounds once: a machine without
such instructions would give other bytes. What is compared was chosen so that a digest of each function that
adds up products changes when numba is allowed to fuse them (fastmath={"contract"}), where the code does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.values import values
from tests.jit import jit_disabled

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(jit_disabled(), reason="compares with compiled code, and this process has none")
def test_results_without_the_jit_have_the_same_bytes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.values"],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == values()

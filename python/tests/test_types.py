"""Types: mypy accepts the client and its tests, in its strict mode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_mypy_accepts_everything() -> None:
    here = Path(__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--strict", "src", "tests"]
    found = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr

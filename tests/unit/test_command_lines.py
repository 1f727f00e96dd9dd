"""The commands of `build/`, run as the documentation has them: as scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(path for path in (ROOT / "build").glob("*.py") if "__main__" in path.read_text())


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_a_command_runs_as_a_script(path, tmp_path):
    done = subprocess.run([sys.executable, path, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {path.name}")


def test_no_script_hides_a_module_of_python():
    """A script's own folder comes first where Python looks for modules."""
    stems = {path.stem for folder in ("build", "scripts") for path in (ROOT / folder).glob("*.py")}
    assert {"export", "engines", "repository"} < stems
    assert stems & sys.stdlib_module_names == set()

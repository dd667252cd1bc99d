"""The Python programs in the pages of the documentation, extracted without changes and run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
_PROGRAM = re.compile(r"```python\n(.*?)```(?:\nThis prints `(.*?)`)?", re.DOTALL)


def programs_in(page: str) -> list[tuple[str, str]]:
    """Return the pairs (program, output) of a page, whose path is relative to the root. The output
    is what the page says next that the program prints, or "".
    """
    return _PROGRAM.findall((ROOT / page).read_text())


def output_of(program: str, directory: Path) -> str:
    """Run a program in this directory, and return its output. Fails if the program fails."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

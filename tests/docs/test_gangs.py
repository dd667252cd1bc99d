"""The programs in the guide to gangs run as they stand there, and print what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "gangs.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```\nprints `(.*?)`", GUIDE, re.DOTALL)


def test_there_are_programs():
    assert len(PROGRAMS) == GUIDE.count("```python") == 3


@pytest.mark.parametrize(("program", "shown"), PROGRAMS)
def test_a_program_of_the_guide_runs(program, shown, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout

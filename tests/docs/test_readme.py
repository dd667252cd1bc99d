"""The programs in the README run as they stand there, and print what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHOWN = ["328350", "[0, 1]", "[(0, 4, '0'), (1, 4, '1'), (2, 4, '2'), (3, 4, '3')]"]


def test_there_are_programs():
    assert len(PROGRAMS) == len(SHOWN)


@pytest.mark.parametrize(("program", "shown"), list(zip(PROGRAMS, SHOWN, strict=True)))
def test_a_program_of_the_readme_runs(program, shown, tmp_path):
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

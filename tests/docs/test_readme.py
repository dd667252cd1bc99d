"""The programs in the README run as they stand there, and print what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.programs import output_of, programs_in

PROGRAMS = [program for program, _ in programs_in("README.md")]
SHOWN = ["328350", "[(0, 4, '0'), (1, 4, '1'), (2, 4, '2'), (3, 4, '3')]", "[0, 1]"]


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == len(SHOWN)


@pytest.mark.parametrize(("program", "shown"), list(zip(PROGRAMS, SHOWN, strict=True)))
def test_a_program_of_the_readme_runs(program: str, shown: str, tmp_path: Path) -> None:
    assert shown in output_of(program, tmp_path)

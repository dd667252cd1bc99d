"""The programs in the guide to gangs run as they stand there, and print what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.programs import output_of, programs_in

PROGRAMS = programs_in("docs/howto/gangs.md")


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == 3
    assert all(shown for _, shown in PROGRAMS)


@pytest.mark.parametrize(("program", "shown"), PROGRAMS)
def test_a_program_of_the_guide_runs(program: str, shown: str, tmp_path: Path) -> None:
    assert shown in output_of(program, tmp_path)

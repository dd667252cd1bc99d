"""Memory of members on the command line: a number without a unit counts bytes."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from phalanx.cli.amounts import member_memory
from phalanx.cli.typer_app import app


@pytest.mark.parametrize("given", ["4GiB", "1MiB", "1048576", "2e6", "1.5 GiB"])
def test_amounts_that_a_command_can_run_in(given: str) -> None:
    assert member_memory(given) == given


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("4000", "4000 is less than 1 MiB: .* counts bytes. Give a unit, such as 4000MiB"),
        ("1", "such as 1MiB"),
        ("0", "such as 512MiB"),
        ("0.5M", "such as 512MiB"),
        ("1000000TiB", "is more than the largest amount, 818.5 TiB"),
        ("1e30", "is more than the largest amount"),
        ("much", "an amount of memory is like"),
    ],
)
def test_what_is_no_memory_of_a_member_is_refused(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        member_memory(given)


@pytest.mark.parametrize(
    "words", ["run --memory", "alloc --memory", "run --gpu-memory", "run --gpu-memory-limit"]
)
def test_each_option_refuses_a_number_that_lacks_its_unit(words: str) -> None:
    ended = CliRunner().invoke(app, [*words.split(), "4000", "--", "true"])
    assert ended.exit_code == 2
    assert "4000MiB" in ended.stderr
    assert "number of bytes" in CliRunner().invoke(app, ["help", words.partition(" ")[0]]).output

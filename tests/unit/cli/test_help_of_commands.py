"""The help of a command: names of arguments, ranges and defaults, and hidden names."""

from __future__ import annotations

import re

import pytest
import typer.main
from typer.testing import CliRunner

from phalanx.adapters.slurm.commands.running import COMMANDS, run
from phalanx.cli.ending import Ended
from phalanx.cli.typer_app import app


def page(*words):
    made = CliRunner().invoke(app, [*words, "--help"], prog_name="phalanx", env={"COLUMNS": "200"})
    assert made.exit_code == 0
    return made.output


def text_of(option, shown):
    """Return the help of an option without the frame and the columns before it."""
    rows = re.findall(r"│ (.*) │", shown)
    (at,) = [i for i, row in enumerate(rows) if row.startswith(f"{option} ")]
    parts = [re.split(r"\s<\w+>\s+", rows[at], maxsplit=1)[1]]
    for row in rows[at + 1 :]:
        if row[:1] != " ":
            break
        parts.append(row)
    return " ".join(" ".join(parts).split())


def test_arguments_have_the_names_that_the_texts_use():
    assert "Usage: phalanx up [OPTIONS] {FILE} [NAME]..." in page("up")
    assert "Usage: phalanx set-limits [OPTIONS] {QUEUE} {USER} {LIMIT}..." in page("set-limits")


def test_a_text_ends_with_the_default_and_the_range():
    shown = page("events")
    assert text_of("--limit", shown).endswith("Default: 1000. [range: 1-10000]")
    assert text_of("--gang", page("run")).endswith("Default: 1. [minimum: 1]")
    assert text_of("--priority", page("run")).endswith("Default: 0.")


def test_a_name_that_restores_the_default_is_not_listed():
    shown = page("logs")
    assert "--previous" in shown
    assert "--no-previous" not in shown


def test_such_a_name_is_still_read():
    done = CliRunner().invoke(app, ["logs", "--no-previous", "job", "--since", "1d"])
    assert "--since and --timestamps are not for jobs" in done.output


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("columns", [60, 80, 132])
def test_the_help_of_slurms_commands_fits_the_terminal(name, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(Ended):
        run(name, ["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Phalanx's version of Slurm's {name}."
    assert lines[1].startswith(f"Usage: {name} ")
    assert max(map(len, lines)) < columns


@pytest.mark.parametrize(
    ("name", "system"), [("squeue", "slurm"), ("scontrol", "slurm"), ("ray", "ray")]
)
def test_a_command_of_another_system_names_its_installation(name, system):
    made = CliRunner().invoke(app, [name, "-l"], prog_name="phalanx", env={"COLUMNS": "200"})
    assert made.exit_code == 2
    assert f"`phalanx compat {system} install DIRECTORY`" in made.output
    assert "install" in page("compat", system)


def pages(group, *words):
    """Yield the words of every command below a group."""
    for name, command in group.commands.items():
        yield (*words, name)
        if hasattr(command, "commands"):
            yield from pages(command, *words, name)


def test_every_command_has_a_help_page():
    every = list(pages(typer.main.get_group(app)))
    assert len(every) > 100
    for words in every:
        assert "Usage: " in page(*words), words

"""The help texts of all commands."""

from __future__ import annotations

import pytest
import typer
from rich.text import Text

from phalanx.cli.typer_app import app


def texts(command, path="phalanx"):
    """Yield (place, help text) of a command, of its options, and of all commands below it."""
    yield path, command.help or ""
    for parameter in command.params:
        yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""
    for name, below in getattr(command, "commands", {}).items():
        yield from texts(below, f"{path} {name}")


@pytest.mark.parametrize(("where", "text"), list(texts(typer.main.get_command(app))))
def test_help_is_shown_as_it_is_written(where, text):
    """Rich, which prints the help, takes a word between two colons for an emoji, and one in
    brackets for a style.
    """
    assert Text.from_markup(text, emoji=True).plain == text.replace("\\[", "[")

"""The page of `phalanx --help` is the same as the one that Typer renders."""

from __future__ import annotations

import io
import os
import re
from importlib.metadata import version

import pytest
import typer.rich_utils
from typer.testing import CliRunner

from phalanx.cli import help_page
from phalanx.cli.typer_app import app

COLUMNS = ("40", "80", "120", "200")


@pytest.fixture(params=COLUMNS)
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", request.param)
    monkeypatch.delenv("TERMINAL_WIDTH", raising=False)
    for name in ("GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return request.param


def drawn(monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr("sys.stdout", said)
    help_page.draw()
    monkeypatch.undo()
    return said.getvalue()


def of_typer():
    return CliRunner().invoke(app, ["--help"], prog_name="phalanx").output


def without_types(page):
    """Return a help page without the types of its options, such as `<bool>`. Versions of Typer
    write these types differently.
    """
    head, _, panels = page.partition("─ Run work")
    assert panels
    return " ".join(re.sub(r"<bool>|[│╭╮╰╯─]", " ", head).split()), panels


@pytest.mark.parametrize("is_coloured", [False, True])
def test_it_is_the_page_of_typer(width, is_coloured, monkeypatch):
    if is_coloured:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setattr(typer.rich_utils, "FORCE_TERMINAL", True)
    env = dict(os.environ)
    theirs = of_typer()
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", width)
        ours = drawn(patch)
    assert env["COLUMNS"] == width
    if version("typer").startswith("0.29."):
        assert ours == theirs
    elif not is_coloured:
        assert without_types(ours) == without_types(theirs)


def test_a_package_that_only_typer_can_show_is_left_to_typer(monkeypatch):
    class Entry:
        name = "other"

        def load(self):
            return lambda app: app.add_typer(typer.Typer(), name="other")

    monkeypatch.setattr("phalanx.runtime.engine.entry_points.others", lambda group: [Entry()])
    with pytest.raises(help_page.Unknown):
        help_page.panels()

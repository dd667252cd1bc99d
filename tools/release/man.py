"""Writes manual pages of all commands from their declarations: `make man`, then `man -l FILE`."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from phalanx import __version__
from phalanx.cli import registry
from phalanx.cli.registry import HELP, PANELS
from phalanx.cli.typer_app import app

_DAY = "%Y-%m-%d"
PROJECT = "Phalanx"


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file: phalanx.1 and one for each command."""
    group: Any = typer.main.get_command(app)
    found = {"phalanx.1": _text(_overview())}
    for name in registry.ENTRIES:
        found[f"phalanx-{name}.1"] = _text(_page(name, group.get_command(None, name)))
    return found


def escaped(text: str) -> str:
    """Return text as troff takes it."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    plain = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", plain)
    return re.sub(r"^([.'])", r"\\&\1", plain, flags=re.MULTILINE)


def _text(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _title(name: str) -> str:
    at = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    day = time.strftime(_DAY, time.gmtime(at))
    return f'.TH "{name.upper()}" "1" "{day}" "{PROJECT} {__version__}" "{PROJECT}"\n.ad l\n.nh'


def _overview() -> Iterator[str]:
    yield _title("phalanx")
    yield from (".SH NAME", f"phalanx \\- {escaped(HELP.rstrip('.').lower())}")
    yield from (".SH SYNOPSIS", ".B phalanx", "COMMAND [OPTIONS] ...")
    yield ".SH COMMANDS"
    for panel, entries in PANELS.items():
        yield f".SS {escaped(panel)}"
        for name, entry in entries.items():
            yield from (".TP", f".BR phalanx\\-{escaped(name)} (1)", escaped(entry.summary))
    yield from (".SH FILES", ".TP", ".I ~/.phalanx/config.toml, /etc/phalanx/config.toml")
    yield escaped("Options of `phalanx start`; see `phalanx config show`.")
    yield from (".TP", ".I ~/.phalanx/token", escaped("The cluster's token."))
    yield from (".SH ENVIRONMENT", ".TP", ".B PHALANX_ADDRESS")
    yield escaped("The cluster to ask: HOST:PORT, unix:DIRECTORY, ray:auto or local.")


def _page(name: str, command: Any) -> Iterator[str]:
    path = f"phalanx {name}"
    yield _title(path.replace(" ", "-"))
    summary = registry.ENTRIES[name].summary.rstrip(".")
    yield from (".SH NAME", f"phalanx\\-{escaped(name)} \\- {escaped(summary)}")
    if not hasattr(command, "list_commands"):
        yield ".SH SYNOPSIS"
        yield from _synopsis(path, command)
        yield ".SH DESCRIPTION"
        yield from _description(command)
        yield from _parameters(path, command, ".SH OPTIONS")
    else:
        yield from (".SH SYNOPSIS", f".B {escaped(path)}", "COMMAND [OPTIONS] ...", ".SH COMMANDS")
        for part in command.list_commands(None):
            below = command.get_command(None, part)
            yield f".SS {escaped(f'{path} {part}')}"
            yield from _synopsis(f"{path} {part}", below)
            yield ".PP"
            yield from _description(below)
            yield from _parameters(f"{path} {part}", below, "")
    yield from (".SH SEE ALSO", ".BR phalanx (1)")


def _synopsis(path: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    yield f".B {escaped(path)}"
    yield escaped(" ".join(command.collect_usage_pieces(context)))


def _description(command: Any) -> Iterator[str]:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))
    for number, text in enumerate(paragraphs):
        if number:
            yield ".PP"
        yield escaped(" ".join(text.split()))


def _parameters(path: str, command: Any, heading: str) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    rows = [row for one in command.params if (row := one.get_help_record(context))]
    if rows and heading:
        yield heading
    for name, meaning in rows:
        yield from (".TP", f".B {escaped(name)}", escaped(" ".join(meaning.split())))


def main() -> int:
    """Write the pages into a directory."""
    reader = argparse.ArgumentParser(description=main.__doc__)
    reader.add_argument("directory", type=Path)
    given = reader.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    made = pages()
    for name, text in made.items():
        (given.directory / name).write_text(text, encoding="utf-8")
    print(f"{len(made)} pages in {given.directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

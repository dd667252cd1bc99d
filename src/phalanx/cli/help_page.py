"""The page of `phalanx --help`, drawn from the registry without Typer.

Typer would draw an equal page, and a test compares both pages. Importing Typer, with the parts of
rich that it needs, takes longer than drawing the page here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from phalanx.cli import registry
from phalanx.cli.options import F
from phalanx.cli.registry import HELP
from phalanx.runtime.engine import entry_points

GROUP = "phalanx.commands"
_OPTIONS = (
    ("--version", "", "Print the version."),
    ("--install-completion", "", "Install completion for the current shell."),
    (
        "--show-completion",
        "",
        "Show completion for the current shell, to copy it or customize the installation.",
    ),
    ("--help", "-h", "Show this message and exit."),
)
_FLAG = "<bool>"
_STYLES = {
    "option": "bold cyan",
    "switch": "bold green",
    "types": "bold yellow",
    "types_sep": "dim",
    "usage": "yellow",
}
_OPTION_PATTERNS = (
    r"(^|\W)(?P<switch>\-\w+)(?![a-zA-Z0-9])",
    r"(^|\W)(?P<option>\-\-[\w\-]+)(?![a-zA-Z0-9])",
    r"(?P<types>\<[^\>]+\>)",
    r"(?P<usage>Usage: )",
)
_TYPE_PATTERNS = (
    r"^(?P<types_sep>(\[|<))",
    r"(?P<types_sep>\|)",
    r"(?P<types_sep>(\]|>))(\.\.\.)?$",
)


class Unknown(Exception):
    """Raised if another package has commands that only Typer can show."""


class _Listing:
    """A stand-in for the app to which a package adds its commands. It records their panels, names
    and summaries.
    """

    def __init__(self) -> None:
        self.found: list[tuple[str, str, str]] = []

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        """Return a decorator that records a function as a command."""
        if not settings.keys() <= {"context_settings", "rich_help_panel"}:
            raise Unknown

        def noted(function: F) -> F:
            summary = re.split(r"\n\s*\n", (function.__doc__ or "").strip())[0]
            panel = settings.get("rich_help_panel")
            if panel is None:
                raise Unknown
            shown = name or function.__name__.lower().replace("_", "-")
            self.found.append((panel, shown, "\n".join(map(str.strip, summary.split("\n")))))
            return function

        return noted


def panels() -> dict[str, list[tuple[str, str]]]:
    """Return the commands with their summaries, by panel, in the order of the page."""
    found = {
        panel: [(name, entry.summary) for name, entry in entries.items()]
        for panel, entries in registry.PANELS.items()
    }
    known = set(registry.ENTRIES)
    for entry in (*entry_points.own(GROUP), *entry_points.others(GROUP)):
        listing = _Listing()
        try:
            entry.load()(listing)
        except AttributeError:
            raise Unknown from None
        for panel, name, summary in listing.found:
            if name not in known:
                known.add(name)
                found.setdefault(panel, []).append((name, summary))
    return found


def draw() -> None:
    """Print the page. Raises `Unknown` before anything is printed."""
    shown = panels()
    from os import environ

    from rich.columns import Columns
    from rich.console import Console
    from rich.highlighter import RegexHighlighter
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text
    from rich.theme import Theme

    class Options(RegexHighlighter):
        highlights: ClassVar[list[str]] = list(_OPTION_PATTERNS)

    class Types(RegexHighlighter):
        highlights: ClassVar[list[str]] = list(_TYPE_PATTERNS)

    coloured = Options()
    width = environ.get("TERMINAL_WIDTH", "")
    is_forced = any(environ.get(name) for name in ("GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS"))
    console = Console(
        theme=Theme(_STYLES),
        highlighter=coloured,
        force_terminal=False
        if environ.get("_TYPER_FORCE_DISABLE_TERMINAL")
        else True
        if is_forced
        else None,
        width=int(width) if width.isdecimal() else None,
    )

    def framed(title: str, table: Table) -> None:
        console.print(Panel(table, border_style="dim", title=title, title_align="left"))

    usage = coloured("Usage: phalanx [OPTIONS] COMMAND [ARGS]...")
    console.print(Padding(usage, 1), style="bold")
    console.print(Padding(coloured(Text(HELP)), (0, 1, 1, 1)))
    options = Table(highlight=True, show_header=False, expand=True, box=None, pad_edge=False)
    for long, short, text in _OPTIONS:
        kind = Types()(Text(_FLAG, style="bold yellow", overflow="fold"))
        options.add_row(
            coloured(long), coloured(short), "", "", kind, Columns([coloured(Text(text))])
        )
    framed("Options", options)
    longest = max(len(name) for entries in shown.values() for name, _ in entries)
    for panel, entries in shown.items():
        table = Table(show_header=False, expand=True, box=None, pad_edge=False)
        table.add_column(style="bold cyan", no_wrap=True, width=longest)
        table.add_column(ratio=10)
        for name, summary in entries:
            table.add_row(Text(name), coloured(Text.from_markup(summary)))
        framed(panel, table)
    console.print()

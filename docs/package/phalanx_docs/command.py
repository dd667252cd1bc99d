"""The command `phalanx docs`: the pages of the documentation in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated

from phalanx.cli.options import Argument, Option, Registrar
from phalanx.cli.reach import NOT_FOUND, fail
from phalanx.cli.registry import CLUSTER
from phalanx.cli.table import echo, table
from phalanx.model.nearest import nearest


def register(commands: Registrar) -> None:
    """Add the command to `phalanx`."""
    commands.command("docs", rich_help_panel=CLUSTER)(docs)


def docs(
    page: Annotated[
        str,
        Argument(help="Name of a page, such as howto/cluster or cluster. Default: list all pages."),
    ] = "",
    search: Annotated[
        str, Option("--search", help="Text to look for in all pages, without regard to case.")
    ] = "",
) -> None:
    """Show the documentation of this release. Exit 3: no such page, or nothing found."""
    pages = dict(_pages(resources.files("phalanx_docs") / "pages"))
    if search:
        _search(pages, search)
    elif not page:
        rows = [[name, _title(text)] for name, text in sorted(pages.items())]
        echo(table(("PAGE", "TITLE"), rows))
    else:
        _show(pages[_named(page, pages)])


def _pages(folder: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield each page with its name, such as `howto/cluster`."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _pages(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".md"):
            yield above + entry.name.removesuffix(".md"), entry.read_text(encoding="utf-8")


def _title(text: str) -> str:
    return next((line[2:] for line in text.splitlines() if line.startswith("# ")), "")


def _named(word: str, pages: dict[str, str]) -> str:
    """Return the name of the page that `word` means. Ends the command if there is not exactly one.
    """
    wanted = word.removeprefix("docs/").removesuffix(".md").strip("/")
    if wanted in pages:
        return wanted
    found = [name for name in pages if name.rpartition("/")[2] == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        fail(f"There are several pages {word!r}: {', '.join(sorted(found))}.", NOT_FOUND)
    known = [*pages, *(name.rpartition("/")[2] for name in pages)]
    near = nearest(wanted, known) or "."
    return fail(f"There is no page {word!r}{near} `phalanx docs` lists all pages.", NOT_FOUND)


def _search(pages: dict[str, str], words: str) -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in sorted(pages.items())
        for number, line in enumerate(text.splitlines(), 1)
        if words.lower() in line.lower()
    ]
    if not found:
        fail(f"No page has {words!r}.", NOT_FOUND)
    echo("\n".join(found))


def _show(text: str) -> None:
    """Print a page. On a terminal, it is formatted and shown in a pager; otherwise its text is
    printed unchanged.
    """
    if not sys.stdout.isatty():
        echo(text.rstrip("\n"))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))

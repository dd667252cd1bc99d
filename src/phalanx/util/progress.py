"""Progress bars for lists of references: in a terminal, in a notebook, or as plain lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from phalanx.api import objects
from phalanx.util.notebooks import in_notebook, notebook_output

PLAIN_LINES = 10
REFRESH_S = 0.1


def track(
    refs: Sequence[Any], description: str = "tasks", *, console: Console | None = None
) -> Iterator[Any]:
    """Yield each reference when it is ready, and show the progress.

    The reference of a failed task is ready, too; `get` then raises the error. The progress is shown
    on `console`; by default, below a notebook's cell or on standard error.

    Example:
        for ref in track([square.remote(n) for n in range(100)], "squares"):
            print(phalanx.get(ref))
    """
    if console is None and in_notebook():
        return _below_cell(list(refs), description)
    console = console or Console(stderr=True)
    shown = _live if console.is_terminal else _plain
    return shown(list(refs), description, console)


def get(
    refs: Sequence[Any], description: str = "tasks", *, console: Console | None = None
) -> list[Any]:
    """Return the values of all references, in their order. Meanwhile, show how many are ready.

    Example:
        values = get([square.remote(n) for n in range(100)], "squares")
    """
    refs = list(refs)
    for _ in track(refs, description, console=console):
        pass
    results: list[Any] = objects.get(refs)
    return results


def _ready(refs: list[Any], timeout_s: float | None) -> Iterator[list[Any]]:
    """Yield the references that have become ready, each time there are some, and an empty list
    after `timeout_s` seconds without any.
    """
    while refs:
        ready, refs = objects.wait(refs, num_returns=1, timeout=timeout_s)
        if ready and refs:
            more, refs = objects.wait(refs, num_returns=len(refs), timeout=0)
            ready += more
        yield ready


def _live(refs: list[Any], description: str, console: Console) -> Iterator[Any]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(description, total=len(refs))
        for ready in _ready(refs, REFRESH_S):
            progress.update(task, advance=len(ready))
            yield from ready


def _below_cell(refs: list[Any], description: str) -> Iterator[Any]:
    total, done = len(refs), 0
    began = time.monotonic()
    show = notebook_output()
    show(_bar(description, 0, total, 0.0))
    for ready in _ready(refs, None):
        done += len(ready)
        show(_bar(description, done, total, time.monotonic() - began))
        yield from ready


def _bar(description: str, done: int, total: int, seconds: float) -> str:
    label = escape(description)
    return (
        f"<div>{label} <progress value='{done}' max='{max(total, 1)}'></progress> "
        f"{done} of {total} done, {seconds:.1f} s</div>"
    )


def _plain(refs: list[Any], description: str, console: Console) -> Iterator[Any]:
    """Print at most PLAIN_LINES lines about the progress, so that a log of a million tasks stays
    readable.
    """
    total = len(refs)
    began = time.monotonic()
    done = said = 0
    for ready in _ready(refs, None):
        done += len(ready)
        if done * PLAIN_LINES // total > said or done == total:
            said = done * PLAIN_LINES // total
            seconds = time.monotonic() - began
            console.print(
                f"{description}: {done} of {total} done, {seconds:.1f} s", highlight=False
            )
        yield from ready

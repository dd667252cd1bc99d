"""The command `phalanx top`: a live view of the cluster in a terminal."""

from __future__ import annotations

import contextlib
import io
import json as json_module
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from phalanx.cli.common_options import HeadAddress
from phalanx.cli.durations import METAVAR, seconds_at_least
from phalanx.cli.ending import Ended
from phalanx.cli.options import Option
from phalanx.cli.reach import USAGE, ask, fail, is_elsewhere
from phalanx.cli.table import echo

if TYPE_CHECKING:
    from phalanx.cli.top_snapshot import Following, TopSnapshot

_KEYS = "q quit  Tab next table  j/k or arrows scroll  space now  p pause"
_PAGE = 10
_HOME, _HIDE, _SHOW, _TO_END, _TO_LINE_END = (
    *("\x1b[H", "\x1b[?25l", "\x1b[?25h"),
    *("\x1b[J", "\x1b[K"),
)
_OWN_SCREEN, _OLD_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
_MOVES = {
    "j": 1,
    "\x1b[B": 1,
    "\x1bOB": 1,
    "k": -1,
    "\x1b[A": -1,
    "\x1bOA": -1,
    "\x1b[6~": _PAGE,
    "\x1b[5~": -_PAGE,
    "g": -(1 << 30),
    "G": 1 << 30,
}


def top(
    address: HeadAddress = None,
    once: Annotated[bool, Option("--once", help="Print all tables once and end.")] = False,
    json: Annotated[bool, Option("--json", help="Print JSON once, instead of tables.")] = False,
    every: Annotated[
        float,
        Option(
            parser=seconds_at_least(0.5),
            metavar=METAVAR,
            show_default=False,
            help="Time between two updates: 2s, 1m or 2 (seconds); at least 0.5s. Default: 2s.",
        ),
    ] = 2.0,
) -> None:
    """Watch nodes, GPUs, queues and jobs, with the reasons why jobs wait.

    Keys: q quits, Tab chooses a table, j and k or arrows scroll it, space updates
    now, p pauses.
    """
    from phalanx.cli.top_snapshot import Following

    if is_elsewhere(address):
        fail("phalanx top is not for Ray clusters: use phalanx jobs and phalanx queue list.", USAGE)
    following = Following(lambda request: ask(address, request))
    if json:
        echo(json_module.dumps(_as_data(following.look()), indent=1))
    elif once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print_once(following.look())
    else:
        _Live(following, every).run()


def _as_data(snapshot: TopSnapshot) -> dict[str, Any]:
    return {
        "format": "phalanx-top/1",
        "at": snapshot.at,
        "address": snapshot.status.address,
        "troubles": snapshot.status.troubles,
        "nodes": [row.as_dict() for row in snapshot.nodes],
        "devices": [one.as_dict() for rows in snapshot.devices.values() for one in rows],
        "queues": [row.as_dict() for row in snapshot.queues],
        "running": [
            {
                **job.as_dict(),
                "devices": [f"{one.node_id}/gpu{one.number}" for one in snapshot.devices_of(job)],
            }
            for job in snapshot.running
        ],
        "waiting": [job.as_dict() for job in snapshot.waiting],
    }


def _print_once(snapshot: TopSnapshot) -> None:
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    console = Console(highlight=False, width=None if is_terminal else 100_000)
    for line in _lines(snapshot, console.width, 0):
        console.print(line, soft_wrap=True)


def _lines(snapshot: TopSnapshot, width: int, height: int, **more: Any) -> list[Any]:
    from phalanx.cli.top_view import ASCII, UNICODE, screen

    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    signs = UNICODE if encoding.startswith("utf") else ASCII
    return screen(snapshot, width, height, signs=signs, **more)


class _Live:
    """The live screen, which reacts to keys."""

    def __init__(self, following: Following, every_s: float) -> None:
        from phalanx.cli.top_view import SECTIONS

        self._following = following
        self._every_s = every_s
        self._sections = SECTIONS
        self._chosen = 0
        self._skipped = dict.fromkeys(SECTIONS, 0)
        self._is_paused = False
        self._snapshot: TopSnapshot | None = None
        self._trouble = ""

    def run(self) -> None:
        """Show the screen until q or Ctrl-C is pressed."""
        self._look()  # an unreachable cluster is reported on the usual screen
        due = time.monotonic() + self._every_s
        with _own_terminal() as bell, contextlib.suppress(KeyboardInterrupt):
            while True:
                self._draw()
                wait_s = None if self._is_paused else max(due - time.monotonic(), 0.0)
                ready, _, _ = select.select([sys.stdin, bell], [], [], wait_s)
                keys = _keys() if sys.stdin in ready else []
                if bell in ready:
                    os.read(bell, 1 << 10)  # the terminal's size has changed: draw again
                if keys is None or "q" in keys:
                    return
                is_asked = any(self._press(key) for key in keys)
                if is_asked or (not self._is_paused and time.monotonic() >= due):
                    self._look()
                    due = time.monotonic() + self._every_s

    def _look(self) -> None:
        if self._snapshot is None:
            self._snapshot = self._following.look()
            return
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                self._snapshot = self._following.look()
            self._trouble = ""
        except Ended:
            self._trouble = " ".join(said.getvalue().split()) or "the head gives no answer"

    def _press(self, key: str) -> bool:
        """Handle a key. Returns whether the screen must be updated immediately."""
        name = self._sections[self._chosen]
        if key in _MOVES and self._snapshot is not None:
            most = _rows(self._snapshot, name)
            self._skipped[name] = min(max(self._skipped[name] + _MOVES[key], 0), most)
        elif key in ("\t", "\x1b[Z"):
            self._chosen += 1 if key == "\t" else -1
            self._chosen %= len(self._sections)
        elif key == "p":
            self._is_paused = not self._is_paused
        return key == " "

    def _draw(self) -> None:
        from rich.console import Console

        assert self._snapshot is not None
        width, height = shutil.get_terminal_size()
        console = Console(width=width, force_terminal=True, highlight=False)
        state = self._trouble or ("paused" if self._is_paused else "")
        lines = _lines(
            self._snapshot,
            width,
            height,
            chosen=self._sections[self._chosen],
            skipped=self._skipped,
            note=f"{state}  {_KEYS}" if state else _KEYS,
        )
        shown = []
        for line in lines:
            with console.capture() as captured:
                console.print(line, end="", no_wrap=True, overflow="crop")
            shown.append(captured.get() + _TO_LINE_END)
        sys.stdout.write(_HOME + "\r\n".join(shown) + _TO_END)
        sys.stdout.flush()


def _rows(snapshot: TopSnapshot, section: str) -> int:
    return len(getattr(snapshot, section)) - 1


def _keys() -> list[str] | None:
    """Return the keys that were pressed; None if the terminal is gone."""
    try:
        text = os.read(sys.stdin.fileno(), 1 << 10).decode(errors="replace")
    except OSError:
        return None
    if not text:
        return None
    found = []
    while text:
        word = next((w for w in (*_MOVES, "\x1b[Z") if len(w) > 1 and text.startswith(w)), text[0])
        found.append(word)
        text = text[len(word) :]
    return found


@contextlib.contextmanager
def _own_terminal() -> Iterator[int]:
    """Use a separate screen without echo, and restore the terminal at the end. Yields a descriptor
    that becomes readable when the terminal's size changes.
    """
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    bell, ring = os.pipe()
    os.set_blocking(ring, False)
    old_ring = signal.set_wakeup_fd(ring)
    old_handler = signal.signal(signal.SIGWINCH, lambda *_: None)
    old_end = signal.signal(signal.SIGTERM, _end)
    try:
        tty.setcbreak(sys.stdin)
        sys.stdout.write(_OWN_SCREEN + _HIDE)
        yield bell
    finally:
        sys.stdout.write(_SHOW + _OLD_SCREEN)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        signal.set_wakeup_fd(old_ring)
        signal.signal(signal.SIGWINCH, old_handler)
        signal.signal(signal.SIGTERM, old_end)
        os.close(bell)
        os.close(ring)


def _end(number: int, frame: object) -> None:
    raise KeyboardInterrupt

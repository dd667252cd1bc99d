"""The cell magic `%%phalanx`, which runs a cell as a task or as a gang.

    %load_ext phalanx.adapters.jupyter

    %%phalanx --gpus 1 --get losses
    losses = train(data)

The cell runs with copies of the variables of the notebook that it reads. The variables that `--get`
names are copied back, and the value of the cell's last line is shown. With `--gang 4` the cell runs
in four members at the same time, and each variable that is copied back is a list with one value for
each rank.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from html import escape
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class

import phalanx
from phalanx.adapters.cells import LAST, failure_lines, read_names, run_cell, sent_names
from phalanx.errors import PhalanxError
from phalanx.util.notebooks import in_notebook, notebook_output

LOOK_EVERY_S = 0.5


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%phalanx: {message}. {self.format_usage().strip()}")


def options(line: str) -> argparse.Namespace:
    """Parse the options after `%%phalanx`. Raises UsageError."""
    parser = _Parser(prog="%%phalanx", add_help=False)
    parser.add_argument("--gang", type=int, metavar="MEMBERS")
    parser.add_argument("--cpus", type=float, default=1.0)
    parser.add_argument("--gpus", type=float, default=0.0)
    parser.add_argument("--queue")
    parser.add_argument("--get", nargs="+", default=[], metavar="NAME")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%phalanx: {error}") from None
    return parser.parse_args(words)


@magics_class
class PhalanxMagics(Magics):
    """The magic `%%phalanx`, described at the top of this module."""

    @cell_magic
    def phalanx(self, line: str, cell: str) -> Any:
        """Run this cell as a task or a gang: %%phalanx [--gang N] [--cpus N] [--gpus N]
        [--queue QUEUE] [--get NAME ...]"""
        asked = options(line)
        try:
            return self._run(asked, cell)
        except SyntaxError as error:
            raise UsageError("".join(failure_lines(error)).rstrip()) from None
        except (Exception, KeyboardInterrupt) as error:
            # IPython calls this function. Otherwise it would show the traceback of Phalanx's code.
            shown = failure_lines(error)
            error._render_traceback_ = lambda *_: shown  # type: ignore[union-attr]
            raise

    def _run(self, asked: argparse.Namespace, cell: str) -> Any:
        given = sent_names(read_names(cell), self.shell.user_ns)
        if not phalanx.is_initialized():
            phalanx.init()
        remote = phalanx.remote(num_cpus=asked.cpus, num_gpus=asked.gpus)(run_cell)
        if asked.gang is None:
            work: Any = remote.remote(cell, given, asked.get)
        else:
            work = remote.gang(asked.gang, queue=asked.queue).remote(cell, given, asked.get)
        found = self._results(work)
        for name in asked.get:
            values = [one[name] for one in found]
            self.shell.user_ns[name] = values[0] if asked.gang is None else values
        last = [one.get(LAST) for one in found]
        if all(value is None for value in last):
            return None
        return last[0] if asked.gang is None else last

    def _results(self, work: Any) -> list[dict[str, Any]]:
        """Wait for the results of the cell's work and return them. While the work waits, show why.
        Ctrl-C cancels the work, and not only the wait.
        """
        refs = list(work) if isinstance(work, list) else [work]
        show: Callable[[str], None] | None = None
        said = ""
        try:
            while True:
                ready, _ = phalanx.wait(refs, num_returns=len(refs), timeout=LOOK_EVERY_S)
                if len(ready) == len(refs):
                    break
                if in_notebook():
                    show = show or notebook_output()
                    show(_waiting_html(work))
                elif (why := _waiting(work)) and why != said:
                    said = why
                    print(f"{why}\n{_WAY_OUT}", file=sys.stderr, flush=True)
            if show is not None:
                show("")
            return list(phalanx.get(refs))
        except KeyboardInterrupt:
            for ref in refs:
                phalanx.cancel(ref)
            raise KeyboardInterrupt("the work of this cell is cancelled") from None


_WAY_OUT = "The cell will start when this has changed. An interrupt (Ctrl-C) cancels it."


def _waiting_html(work: Any) -> str:
    if isinstance(work, list):
        return work._repr_html_() if hasattr(work, "_repr_html_") else ""
    why = _waiting(work)
    text = escape(f"{why}\n{_WAY_OUT}")
    return f"<div style='white-space:pre-wrap'>{text}</div>" if why else ""


def _waiting(work: Any) -> str:
    """Return why work waits; "" if it runs or has ended."""
    try:
        return str(phalanx.explain(work))
    except PhalanxError:
        return ""


def load_ipython_extension(shell: Any) -> None:
    """Register the magic, for `%load_ext phalanx.adapters.jupyter`."""
    shell.register_magics(PhalanxMagics)

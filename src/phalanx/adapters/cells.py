"""Notebook cells that run in workers, and the names that a cell reads and binds. Workers do not
need IPython for this module.
"""

from __future__ import annotations

import ast
import linecache
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.errors import TaskError

LAST = "_phalanx_last"
"""The name that holds the value of a cell's last line, if that line is an expression."""


CELL = "<cell>"
"""The name of the cell's file in tracebacks."""


def read_names(cell: str) -> set[str]:
    """Return all names that the cell may read. Raises SyntaxError."""
    return {node.id for node in ast.walk(ast.parse(cell, CELL)) if isinstance(node, ast.Name)}


def sent_names(named: set[str], notebook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notebook's variables whose names are in `named`, by name. Names that begin with an
    underscore are left out.
    """
    return {name: notebook[name] for name in sorted(named & notebook.keys()) if name[0] != "_"}


def run_cell(source: str, given: dict[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """Run a cell in a worker, and return the values of the wanted names. Raises NameError if the
    cell does not bind one of these names, and all errors that the cell raises.
    """
    space = {"__name__": "__main__", **given}
    lines = source.splitlines(keepends=True)
    linecache.cache[CELL] = (len(source), None, lines, CELL)  # tracebacks show the lines
    exec(compile(_with_last_bound(source), CELL, "exec"), space)
    missing = [name for name in wanted if name not in space]
    if missing:
        raise NameError(f"the cell does not bind {', '.join(missing)}, which --get names")
    return {name: space[name] for name in (*wanted, LAST) if name in space}


def _with_last_bound(source: str) -> ast.Module:
    """Return the parsed cell, with its last expression bound to LAST."""
    tree = ast.parse(source, CELL)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body[-1]
        target = ast.copy_location(ast.Name(LAST, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    return tree


def failure_lines(error: BaseException) -> list[str]:
    """Return the lines that a notebook shows for an error. If the cell's own code raised the error,
    the lines are the traceback from that code on. Otherwise they are only the name and text of the
    error.
    """
    if not isinstance(error, TaskError):
        return traceback.format_exception_only(error)
    where = "The cell" if error.pid is None else f"The cell (pid={error.pid})"
    lines = error.traceback_str.rstrip().splitlines()
    own = next((at for at, line in enumerate(lines) if f'"{CELL}"' in line), None)
    if own is None:
        lines = lines[-1:]  # the error is not from the cell's own code
    else:
        head = next(at for at, line in enumerate(lines) if line.startswith("Traceback "))
        del lines[head + 1 : own]
    return [f"{where} raised:", *lines]

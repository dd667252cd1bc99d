"""Notebook cells that run in workers, and the names that a cell reads and binds. Workers do not
need IPython for this module.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

LAST = "_phalanx_last"
"""The name that holds the value of a cell's last line, if that line is an expression."""


def cell_source(cell: str) -> tuple[str, set[str]]:
    """Return the cell with its last expression bound to LAST, and all names that the cell may read.

    Raises SyntaxError.
    """
    tree = ast.parse(cell)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body[-1]
        target = ast.Name(LAST, ast.Store(), lineno=last.lineno, col_offset=0)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return ast.unparse(tree), named


def sent_names(named: set[str], notebook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notebook's names that the cell needs, including names that the cell's functions
    read.
    """
    return {name: notebook[name] for name in sorted(named & notebook.keys()) if name[0] != "_"}


def run_cell(source: str, given: dict[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """Run a cell in a worker, and return the values of the wanted names. Raises NameError for a
    name that the cell does not bind, and all errors that the cell raises.
    """
    space = {"__name__": "__main__", **given}
    exec(compile(source, "<cell>", "exec"), space)
    missing = [name for name in wanted if name not in space]
    if missing:
        raise NameError(f"the cell does not bind {', '.join(missing)}, which --get names")
    return {name: space[name] for name in (*wanted, LAST) if name in space}

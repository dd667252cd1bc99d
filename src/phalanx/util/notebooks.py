"""Notebooks: whether this process is a notebook's kernel, and output that later output replaces."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def in_notebook() -> bool:
    """Whether this code runs in a notebook's cell. IPython in a terminal is no notebook."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


def notebook_output() -> Callable[[str], None]:
    """Return a function that shows HTML below the cell. Each text replaces the one before it."""
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    return lambda html: handle.update(HTML(html))

"""Whether this process is a notebook's kernel, and output below its cell that can be replaced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def in_notebook() -> bool:
    """Whether a cell of a notebook runs here; IPython at a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


def notebook_output() -> Callable[[str], None]:
    """A place below the cell for HTML; each text that it is given takes the place of the last."""
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    return lambda html: handle.update(HTML(html))

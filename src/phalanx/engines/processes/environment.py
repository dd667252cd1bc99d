"""The environment of processes that an engine starts."""

from __future__ import annotations

import os


def child_environment() -> dict[str, str]:
    """This process's environment, with one thread for each numeric library, and with this package
    on the path."""
    variables = dict(os.environ)
    variables.setdefault("OPENBLAS_NUM_THREADS", "1")
    variables.setdefault("MKL_NUM_THREADS", "1")
    here = os.path.abspath(__file__)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(here))))
    path = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = root if not path else f"{root}{os.pathsep}{path}"
    return variables

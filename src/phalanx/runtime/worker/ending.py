"""The end of a worker's process, as an interpreter ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import NoReturn


def run_exit_handlers() -> None:
    """Run what user code registered with atexit: a forked process never gets there by itself."""
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()


def end_process(error: SystemExit) -> NoReturn:
    """End as this exit asks; its results have left."""
    run_exit_handlers()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))

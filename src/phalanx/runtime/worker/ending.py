"""The end of a worker's process, as an interpreter ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import NoReturn

from phalanx.protocol.node_messages import WorkerEnding
from phalanx.runtime.driver.transport import NodeConnection


def run_exit_handlers(node: NodeConnection) -> None:
    """Run what user code registered with atexit: a forked process never gets there by itself.

    A handler may wait without end, as that of multiprocessing does for children that run. So the
    node hears that nothing else is left to do, and ends the process after a while.
    """
    node.send(WorkerEnding())
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()


def end_process(error: SystemExit, node: NodeConnection) -> NoReturn:
    """End as this exit asks; its results have left."""
    run_exit_handlers(node)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))

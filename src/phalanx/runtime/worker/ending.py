"""Ends a worker's process in the way in which an interpreter ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import NoReturn

from phalanx.protocol.node_messages import WorkerEnding
from phalanx.runtime.driver.transport import NodeConnection


def run_exit_handlers(node: NodeConnection) -> None:
    """Run the handlers that user code registered with atexit, because a forked process would not
    run them.

    A handler may wait forever, as that of multiprocessing does for running children. So the node is
    told that nothing else is left to do, and ends the process after a while.
    """
    node.send(WorkerEnding())
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()


def end_process(error: SystemExit, node: NodeConnection) -> NoReturn:
    """End the process with the code of this exit. All results must have left."""
    run_exit_handlers(node)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))

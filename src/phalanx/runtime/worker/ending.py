"""Ends a worker's process in the way in which Python's interpreter would end it."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from phalanx.protocol.node_messages import WorkerEnding
from phalanx.runtime.driver.transport import NodeConnection


def run_exit_handlers(node: NodeConnection) -> None:
    """Run the handlers that user code has registered with atexit, because a forked process does not
    run them itself.

    A handler may wait for ever, as that of multiprocessing does while children run. So the node is
    told that the worker is done, and ends the process after a while.
    """
    node.send(WorkerEnding())
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()


def exit_after(program: Callable[[], int]) -> NoReturn:
    """Run the program of a worker, and end the process with the exit code that the program returns.
    An error is printed, and the exit code is then 1.
    """
    code = 1
    try:
        code = program()
    except BaseException:
        traceback.print_exc()
    finally:
        _exit(code)


def end_process(error: SystemExit, node: NodeConnection) -> NoReturn:
    """Run the exit handlers, and end the process with the exit code in `error`. All results must
    have been sent.
    """
    run_exit_handlers(node)
    _exit(error.code if isinstance(error.code, int) else int(error.code is not None))


def _exit(code: int) -> NoReturn:
    """End the process after its output is written, without the handlers of the interpreter."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)

"""A worker's process, from the fork to its end."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from typing import Any

from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.runtime.driver.engine import adopt_runtime
from phalanx.runtime.driver.job_settings import JobSettings
from phalanx.runtime.driver.runtime import Runtime
from phalanx.runtime.os.connection import connect
from phalanx.runtime.os.own_pid import own_pid
from phalanx.runtime.os.session import Session
from phalanx.runtime.worker.ending import run_exit_handlers
from phalanx.runtime.worker.executor import WorkerExecutor
from phalanx.runtime.worker.named_output import NamedOutput
from phalanx.worker.context import current


def main(
    worker_id: bytes,
    session: Session,
    devices: Mapping[str, str],
    setup_failure: str = "",
    forked_as: int = 0,
) -> int:
    """Serve owners until the node stops the worker. Returns the exit code.

    `devices`: the lists of devices that were shown to the node, by resource. `setup_failure`: why
    no work can run here; "" if work can run. `forked_as`: see `Hello`.
    """
    outputs = NamedOutput(sys.stdout, ""), NamedOutput(sys.stderr, "")
    sys.stdout, sys.stderr = outputs
    if "numpy" in sys.modules:
        # Forked sibling processes must not draw the same random numbers.
        sys.modules["numpy"].random.seed()
    node = connect(session.socket_of(b"node"))
    runtime = Runtime(session, worker_id, "worker", node)
    job = JobSettings(runtime.owner.requests)

    def flush() -> None:
        for output in outputs:
            output.flush_unfinished()
        runtime.flush()

    executor = WorkerExecutor(runtime, job, devices, flush=flush, setup_failure=setup_failure)
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = functools.partial(_stop, session)
    runtime.attach(executor)
    runtime.open()
    adopt_runtime(runtime, job, lambda: executor.actor)
    node.send(Hello(PROTOCOL_VERSION, worker_id, "worker", own_pid(), forked_as=forked_as))
    runtime.reactor.start()
    code = executor.serve()
    run_exit_handlers(runtime.node)
    for connection in runtime.connections():
        connection.drain_all(1.0)
    return code


def _stop(session: Session, *args: Any, **kwargs: Any) -> None:
    """Wait for a debugger at a `breakpoint()` in the running code."""
    from phalanx.runtime.os.debugging import wait_for_debugger

    context = current.get()
    name = "a worker" if context is None else context.name
    wait_for_debugger(session, name, sys._getframe(1))

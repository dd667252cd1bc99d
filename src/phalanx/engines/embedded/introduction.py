"""A driver introduces itself to the node that it will use, before it has a reactor."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Any

import msgspec

from phalanx.engines.processes.connection import Connection, wait_for
from phalanx.errors import SystemFailureError
from phalanx.protocol.node_messages import Reply, Request

ANSWER_TIMEOUT_S = 60.0


class JobOptions(msgspec.Struct, kw_only=True):
    """What this driver is."""

    namespace: str
    log_to_driver: bool = True
    hook: bytes = b""
    queue: str = ""
    priority: int = 0


def introduce(node: Connection, job: JobOptions) -> dict[str, Any]:
    """Say who we are; the node's answer, our id in it. Raises SystemFailureError."""
    args = {
        "path": [os.path.abspath(p) if p else os.getcwd() for p in sys.path],
        "directory": os.getcwd(),
        "namespace": job.namespace,
        "log_to_driver": job.log_to_driver,
        "hook": job.hook,
        "queue": job.queue,
        "priority": job.priority,
    }
    node.send(Request(1, "register_driver", args))
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not wait_for(node.fileno, select.POLLIN, left):
            raise SystemFailureError(f"The node did not answer within {ANSWER_TIMEOUT_S:.0f} s.")
        messages = node.receive()
        if messages is None:
            raise SystemFailureError(
                "The node's process ended before it took this program in; why is printed above, "
                "or stands in the log of the cluster's node."
            )
        for message in messages:
            if isinstance(message, Reply):
                result: dict[str, Any] = message.result
                return result

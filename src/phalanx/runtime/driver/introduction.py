"""The introduction of a driver to its node, before the driver has a reactor."""

from __future__ import annotations

import os
import select
import shlex
import sys
import time
from multiprocessing.process import current_process

import msgspec

from phalanx.errors import SystemFailureError
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.protocol.requests.node import Introduction, RegisterDriver
from phalanx.protocol.requests.request import encode_request, read_result
from phalanx.runtime.os.accounts import current_umask
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.environment import existing_directory, python_version
from phalanx.runtime.os.polling import wait_for

ANSWER_TIMEOUT_S = 60.0
ENTRYPOINT_CHARACTERS = 1_000


class JobOptions(msgspec.Struct, kw_only=True):
    """The settings of a driver's job, for its node."""

    namespace: str
    log_to_driver: bool = True
    hook: bytes = b""
    queue: str = ""
    priority: int = 0


def introduce(node: Connection, job: JobOptions) -> Introduction:
    """Introduce this driver to the node. Returns the node's answer. Raises SystemFailureError."""
    directory = existing_directory()
    request = RegisterDriver(
        path=[os.path.normpath(os.path.join(directory, path)) for path in sys.path],
        directory=directory,
        namespace=job.namespace,
        log_to_driver=job.log_to_driver,
        hook=job.hook,
        queue=job.queue,
        priority=job.priority,
        pid=os.getpid(),
        entrypoint=shlex.join(sys.orig_argv)[:ENTRYPOINT_CHARACTERS],
        authkey=bytes(current_process().authkey),
        python=python_version(),
        umask=current_umask(),
        protocol=PROTOCOL_VERSION,
    )
    node.send(Ask(1, request.kind, encode_request(request)))
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not wait_for(node.fileno, select.POLLIN, left):
            raise SystemFailureError(f"The node did not answer within {ANSWER_TIMEOUT_S:.0f} s.")
        messages = node.receive()
        if messages is None:
            raise SystemFailureError(
                "The node's process ended before it accepted this program; the reason is printed "
                "above, or is in the log of the cluster's node."
            )
        for message in messages:
            if isinstance(message, Reply):
                return read_result(request, message.result, message.error)

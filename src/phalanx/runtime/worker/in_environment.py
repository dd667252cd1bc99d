"""The program of a worker that runs in an environment, whose Python executes it."""

from __future__ import annotations

import json
import signal
import sys

import msgspec


def main() -> int:
    """Serve owners until the node stops the worker. Returns the exit code.

    The arguments are the worker's id, the node's session, and its devices.
    """
    worker, session, devices = sys.argv[1:]
    sys.argv[:] = [sys.argv[0]]
    from phalanx.runtime.os.process_names import WORKER, name_process
    from phalanx.runtime.os.session import Session
    from phalanx.runtime.worker import process

    name_process(WORKER)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    here = msgspec.json.decode(session, type=Session)
    return process.main(bytes.fromhex(worker), here, json.loads(devices))


if __name__ == "__main__":
    del sys.path[0]  # the directory in which the node was started
    from phalanx.runtime.worker.ending import exit_after

    exit_after(main)

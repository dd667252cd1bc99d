"""Programs that fork."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import phalanx


def test_a_forked_child_that_ends_leaves_the_session_alone(run_program):
    """Its atexit told the node to stop, and its parent waited for ever."""
    program = """
        import os, sys, warnings
        import phalanx
        warnings.simplefilter("ignore")  # Python 3.12 warns about forks of threaded programs
        phalanx.init(num_cpus=1)
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        print(phalanx.get(phalanx.remote(lambda: 3).remote(), timeout=30))
    """
    assert run_program(program) == (0, "3\n")


def test_a_workers_fork_that_lives_on_does_not_hide_the_workers_end(runtime, get):
    """The child kept the worker's sockets open, so that nobody saw their end."""

    @phalanx.remote
    class Seen:
        def __init__(self):
            self.pids = []

        def append(self, pid):
            self.pids.append(pid)

        def all(self):
            return self.pids

    log = Seen.remote()

    @runtime.remote(max_retries=0)
    def fork_and_end():
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        runtime.get(log.append.remote(child))
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        failed = fork_and_end.remote()
        ready, _ = runtime.wait([failed], timeout=30)
        assert ready == [failed]
    finally:
        for pid in get(log.all.remote()):
            with contextlib.suppress(ProcessLookupError):  # it ends with its worker
                os.kill(pid, signal.SIGKILL)

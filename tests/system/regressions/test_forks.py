"""Programs that fork."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import phalanx


def test_a_forked_child_that_ends_leaves_the_session_alone(run_program):
    """The child's atexit handler told the node to stop, and the parent then waited for ever."""
    program = """
        import os, sys, warnings
        import phalanx
        warnings.simplefilter("ignore")  # Python 3.12 warns about forks of threaded programs
        phalanx.init(num_cpus=1)
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        print(phalanx.get(phalanx.remote(lambda: 3).remote(), timeout=120))
    """
    assert run_program(program) == (0, "3\n")


def test_a_workers_fork_that_lives_on_does_not_hide_the_workers_end(runtime, get):
    """The child kept the worker's sockets open, so nobody noticed the worker's end."""

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
        ready, _ = runtime.wait([failed], timeout=120)
        assert ready == [failed]
    finally:
        for pid in get(log.all.remote()):
            with contextlib.suppress(ProcessLookupError):  # it ends with its worker
                os.kill(pid, signal.SIGKILL)


def test_what_a_child_reads_stays_when_its_parent_drops_it(run_program):
    code, output = run_program(
        """
        import os

        import numpy
        import phalanx

        def large(byte):
            return numpy.full(1 << 20, byte, numpy.uint8)

        phalanx.init(num_cpus=1)
        ref = phalanx.put(large(1))
        value = phalanx.get(ref)
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(theirs)
            os.read(ours, 1)
            os._exit(int(value[-1]))
        os.close(ours)
        del ref, value
        others = [phalanx.put(large(2)) for _ in range(3)]
        os.close(theirs)
        print("read", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (code, output.split("read ")[-1].strip()) == (0, "1"), output

"""Ctrl-C and cancellations that interrupt the runtime's own code."""

from __future__ import annotations

import time

STORM = """
    import os, signal, threading, time
    import phalanx

    @phalanx.remote
    def same(x):
        return x

    phalanx.init(num_cpus=2)
    phalanx.get(same.remote(0))
    wanted, seen = threading.Event(), 0

    def interrupt():
        for i in range(100):
            wanted.wait()
            time.sleep(i % 10 * 0.0005)
            wanted.clear()
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    while seen < 100:
        refs = []
        try:
            wanted.set()
            while True:
                refs = [same.remote(i) for i in range(50)]
                phalanx.get(refs)
        except KeyboardInterrupt:
            seen += 1
        assert phalanx.get(refs, timeout=120) == [*range(len(refs))]
    print(phalanx.get([same.remote(i) for i in range(3)], timeout=120))
"""


def test_a_program_goes_on_after_it_was_interrupted(run_program):
    """Ctrl-C while messages were handled lost some of them, and the next `get` waited for ever."""
    assert run_program(STORM) == (0, "[0, 1, 2]\n")


def test_a_cancel_leaves_the_workers_own_tasks_whole(runtime, get):
    """The worker was interrupted while it read the results of its child tasks. Its CPU was then
    lost.
    """

    @runtime.remote
    def leaf(i):
        return i

    @runtime.remote
    def parent():
        while True:
            runtime.get([leaf.remote(i) for i in range(20)])

    for i in range(60):
        ref = parent.remote()
        until = time.perf_counter() + i % 15 * 0.002
        while time.perf_counter() < until:
            pass
        runtime.cancel(ref)
        ready, _ = runtime.wait([ref], timeout=120)
        assert ready == [ref]
        assert get([leaf.remote(i) for i in range(5)]) == [0, 1, 2, 3, 4]

"""What steps of workflows do in the suites of several hosts, and where those find their machine."""

import os

import phalanx

LICENCE = {"resources": {"licence": 1}}
"""Options that only a machine of `on_a_machine` can meet."""


def on_a_machine():
    """The body of a fixture: this process's own machine of two CPUs and a licence."""
    phalanx.init("local", num_cpus=2, **LICENCE)
    yield
    phalanx.shutdown()


def find_place():
    """The process that it runs in, and what it holds."""
    return os.getpid(), phalanx.get_runtime_context().get_assigned_resources()


def check_place(found):
    """That `find_place` ran in a worker with half a CPU and the licence."""
    pid, amounts = found
    assert pid != os.getpid()
    assert amounts["licence"] == 1 and amounts["CPU"] == 0.5


def succeed_third(directory):
    """Fails at the first two tries, which it counts by files in an empty directory; then 2."""
    tries = len(list(directory.iterdir()))
    (directory / str(tries)).touch()
    if tries < 2:
        raise ValueError(f"try {tries}")
    return tries

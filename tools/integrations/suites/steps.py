"""The steps of workflows in the suites of several hosts, and the runtime on which they run."""

import os

import phalanx

LICENSE = {"resources": {"license": 1}}
"""A request that only the runtime of `on_a_machine` can meet."""


def on_a_machine():
    """Run a fixture with a runtime in this process that has two CPUs and a license."""
    phalanx.init("local", num_cpus=2, **LICENSE)
    yield
    phalanx.shutdown()


def find_place():
    """Return the process in which the step runs, and the resources that it holds."""
    return os.getpid(), phalanx.get_runtime_context().get_assigned_resources()


def check_place(found):
    """Check that `find_place` ran in a worker with half a CPU and the license."""
    pid, amounts = found
    assert pid != os.getpid()
    assert amounts["license"] == 1 and amounts["CPU"] == 0.5


def succeed_third(directory):
    """Fail at the first two tries, and return 2 at the third. The tries are counted by files in
    `directory`, which is empty at first.
    """
    tries = len(list(directory.iterdir()))
    (directory / str(tries)).touch()
    if tries < 2:
        raise ValueError(f"try {tries}")
    return tries

"""Drivers of two queues share a machine by weight, and tasks of a higher priority run first."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import present

import phalanx
from phalanx.errors import QueueUnavailableError
from phalanx.node.queue_usage import QueueShares
from phalanx.scheduler.devices.sets import ResourceSet

CPUS = 6
TASKS = 120
DRIVER = """
import sys, time
import phalanx

queue, priority, path, address, directory, count = sys.argv[1:]
phalanx.init(address, queue=queue or None, priority=int(priority), _temp_dir=directory)

@phalanx.remote
def work(path, name):
    time.sleep(0.05)
    with open(path, "a") as file:
        file.write(name)

refs = [work.remote(path, queue[:1] or priority) for _ in range(int(count))]
print("submitted", flush=True)
phalanx.get(refs, timeout=300)
"""


@phalanx.remote
def hold(begun, over):
    """Hold CPUs until a file exists, so that by then all drivers have tasks that wait."""
    begun.touch()
    while not over.exists():
        time.sleep(0.01)


def run_drivers(cluster, path, *specs):
    """Run drivers of (queue, priority) at the same time to their ends. Return the letters of their
    tasks, in the order in which the tasks ended. No task begins before all drivers have submitted
    theirs.
    """
    begun, over = path.with_name("begun"), path.with_name("over")
    holding = hold.options(num_cpus=CPUS).remote(begun, over)
    eventually(begun.exists)
    running = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", DRIVER, queue, str(priority), str(path)),
                *(cluster.address, cluster.temp_dir, str(TASKS)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for queue, priority in specs
    ]
    for driver in running:
        assert present(driver.stdout).readline() == "submitted\n"
    over.touch()
    phalanx.get(holding, timeout=PATIENCE_S)
    for driver in running:
        driver.communicate(timeout=PATIENCE_S)
        assert driver.returncode == 0
    text = path.read_text()
    letters = [queue[:1] or str(priority) for queue, priority in specs]
    assert sorted(text) == sorted("".join(letter * TASKS for letter in letters))
    return text


CPU = ResourceSet.from_mapping({"CPU": 1})
TOTAL = ResourceSet.from_mapping({"CPU": CPUS})


def test_shares_are_what_queues_hold_by_their_weights():
    shares = QueueShares()
    shares.weights = {"a": 2.0}
    for _ in range(3):
        shares.take("a", CPU)
    shares.take("b", CPU)
    assert shares.of("a", TOTAL) == pytest.approx(0.25)
    assert shares.of("b", TOTAL) == pytest.approx(1 / 6)
    assert not shares.may_take("b", CPU, "a", CPU, TOTAL)  # b would have more by weight than a
    shares.take("a", CPU)
    shares.take("a", CPU)
    assert shares.may_take("b", CPU, "a", CPU, TOTAL)
    assert shares.may_take("c", CPU, "b", CPU, TOTAL)
    shares.give_back("b", CPU)
    assert shares.of("b", TOTAL) == 0


def test_a_queue_that_a_runtime_of_its_own_does_not_have_is_made_and_charged():
    with phalanx.init(num_cpus=2, queue="research", priority=3):
        assert "research" in [queue["name"] for queue in phalanx.queues()]

        @phalanx.remote
        def inner():
            return 1

        @phalanx.remote
        def outer():
            return phalanx.get(inner.gang(1).remote())

        assert phalanx.get(outer.remote(), timeout=PATIENCE_S) == [1]
        assert phalanx.Job("true").queue == "research"
        assert phalanx.Job("true").priority == 3


def test_a_cluster_does_not_make_queues_for_drivers(new_cluster):
    cluster = new_cluster({"num_cpus": 1})
    phalanx.shutdown()
    with pytest.raises(QueueUnavailableError, match="no queue 'nobody'"):
        phalanx.init(cluster.address, queue="nobody", _temp_dir=cluster.temp_dir)
    assert not phalanx.is_initialized()


def test_two_drivers_share_a_node_by_the_weights_of_their_queues(new_cluster, tmp_path):
    cluster = new_cluster({"num_cpus": CPUS})
    phalanx.create_queue("heavy", weight=2)
    phalanx.create_queue("light")
    ended = run_drivers(cluster, tmp_path / "log", ("heavy", 0), ("light", 0))
    both = ended[: min(ended.rindex("h"), ended.rindex("l"))]
    settled = both[len(both) // 4 :]  # the workers of one queue may have started before the other's
    assert 1.4 < settled.count("h") / settled.count("l") < 2.9


def test_a_drivers_higher_priority_goes_first(new_cluster, tmp_path):
    cluster = new_cluster({"num_cpus": CPUS})
    ended = run_drivers(cluster, tmp_path / "log", ("", 0), ("", 7))
    assert ended[: ended.rindex("7")].count("0") < TASKS / 4

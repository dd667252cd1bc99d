"""Listings of a cluster of real nodes: tasks of all owners, also of dead ones, and nodes that do
not answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.polling import eventually

import phalanx
from phalanx.errors import StateQueryError
from phalanx.util import state
from phalanx.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from phalanx.util.state.rows import rows

PROGRAM = """
import sys
import phalanx

phalanx.init(sys.argv[1], namespace="other")


@phalanx.remote(num_cpus=0)
def of_another_program():
    return 1


@phalanx.remote(num_cpus=0)
def waits(pipe):
    with open(pipe) as reading:
        reading.read()


phalanx.get([of_another_program.remote() for _ in range(5)])
ref = waits.remote(sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
"""


@phalanx.remote(num_cpus=0)
def leaf():
    return phalanx.get_runtime_context().get_node_id()


@phalanx.remote(num_cpus=0)
def tree():
    """Start tasks. The worker that runs this function becomes their owner."""
    here = NodeAffinitySchedulingStrategy(phalanx.get_runtime_context().get_node_id(), soft=False)
    return phalanx.get([leaf.options(scheduling_strategy=here).remote() for _ in range(3)])


@phalanx.remote(num_cpus=0)
class Keeper:
    def keep(self, size):
        self.kept = phalanx.put(b"x" * size)
        return self.kept.hex()


def on(node):
    return NodeAffinitySchedulingStrategy(node.node_id, soft=False)


@pytest.fixture
def cluster(new_cluster):
    return new_cluster(1, 1, 1)


def test_tasks_of_all_owners_on_all_nodes_are_listed(cluster, get):
    nodes = cluster.list_all_nodes()
    get([tree.options(scheduling_strategy=on(node)).remote() for node in nodes])

    def leaves():
        found = state.list_tasks(filters=[("name", "=", "leaf"), ("state", "=", "FINISHED")])
        return found if len(found) == 9 else []

    found = eventually(leaves)
    assert {row.node_id for row in found} == {node.node_id for node in nodes}
    trees = state.list_tasks(filters=[("name", "=", "tree")], detail=True)
    assert {row.parent_task_id for row in found} == {row.task_id for row in trees}
    assert all(row.state == "FINISHED" and row.end_time_ms for row in trees)
    of_one = state.list_tasks(
        filters=[("name", "=", "leaf"), ("node_id", "=", nodes[0].node_id)], limit=2
    )
    assert [row.node_id for row in of_one] == [nodes[0].node_id] * 2
    counts = state.summarize_tasks()["cluster"]["summary"]
    assert counts["leaf"]["state_counts"] == {"FINISHED": 9}
    task = state.get_task(found[0].task_id)
    assert isinstance(task, state.StateRow)
    assert task.task_id == found[0].task_id
    assert state.get_task("00" * 24) is None


def test_objects_are_listed_with_who_holds_them(cluster, get):
    node = cluster.list_all_nodes()[-1]
    keeper = Keeper.options(scheduling_strategy=on(node)).remote()
    kept = get(keeper.keep.remote(2_000_000))
    ref = phalanx.put(b"y" * 3_000_000)
    (row,) = state.get_objects(kept)
    (worker,) = state.list_workers(filters=[("actor_id", "=", keeper._actor_id.hex())])
    assert (row.pid, row.type, row.node_id) == (worker.pid, "WORKER", node.node_id)
    assert row.object_size >= 2_000_000
    (mine,) = state.get_objects(ref.hex())
    assert (mine.pid, mine.type, mine.task_status) == (os.getpid(), "DRIVER", "FINISHED")
    stores = rows("stores", None, [("node_id", "=", node.node_id)], 1, 30, True, True)
    assert row.file in stores[0].files
    total = state.summarize_objects()["cluster"]
    assert total["total_size_mb"] > 4


@phalanx.remote(num_cpus=0)
def reads_until(value, path):
    with open(path) as pipe:
        return len(value), pipe.read()


def test_workers_have_the_arguments_of_what_they_run(cluster, get, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    node = cluster.list_all_nodes()[-1]
    ref = phalanx.put(b"z" * 2_000_000)
    task = reads_until.options(scheduling_strategy=on(node)).remote(ref, str(pipe))

    def of_worker():
        return [row for row in state.get_objects(ref.hex()) if row.type == "WORKER"]

    (row,) = eventually(of_worker)
    (made,) = state.get_objects(task.hex())
    with open(pipe, "w") as end:
        (worker,) = state.list_workers(filters=[("pid", "=", row.pid)])
        assert (row.node_id, row.ip) == (node.node_id, worker.ip)
        assert row.reference_type == "PINNED_IN_MEMORY"
        assert row.object_size >= 2_000_000
        assert made.task_status == "SUBMITTED_TO_WORKER"
        end.write("over")
    assert get(task) == (2_000_000, "over")
    eventually(lambda: not of_worker())


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_program_that_has_ended_or_was_killed_leaves_its_finished_tasks(cluster, tmp_path, how):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", PROGRAM, cluster.address, str(pipe)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == "ready\n"
            (driver,) = [row for row in state.list_drivers(detail=True) if row.pid == other.pid]
            assert (driver.state, driver.namespace) == ("RUNNING", "other")
            of_it = [("job_id", "=", driver.job_id)]
            waiting = [*of_it, ("name", "=", "waits")]
            eventually(lambda: [r.state for r in state.list_tasks(filters=waiting)] == ["RUNNING"])
            finished = [*of_it, ("name", "=", "of_another_program"), ("state", "=", "FINISHED")]
            assert len(state.list_tasks(filters=finished)) == 5
            if how == "kill":  # what it has finished a while ago is known to its node
                eventually(lambda: known_without(other.pid, finished) == 5)
                other.kill()
            else:
                other.communicate()
        finally:
            other.kill()
    eventually(lambda: [r.state for r in state.list_drivers() if r.pid == other.pid] == ["ENDED"])
    assert len(state.list_tasks(filters=finished)) == 5
    left = [(row.state, row.error_type) for row in state.list_tasks(filters=waiting)]
    assert left == ([("FAILED", "WORKER_DIED")] if how == "end" else [])
    (ended,) = state.list_workers(filters=[("pid", "=", other.pid)], detail=True)
    assert (ended.is_alive, ended.worker_type) == (False, "DRIVER")
    assert ended.end_time_ms > ended.start_time_ms


def stop(pid):
    """Stop a process, and wait until all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    stats = [one / "stat" for one in tasks.iterdir()]
    eventually(lambda: all(stat.read_text().rsplit(")", 1)[1].split()[0] == "T" for stat in stats))


def known_without(pid, filters):
    """Return how many tasks are listed while only this process does not answer; 0 if another
    process was also late.
    """
    stop(pid)
    try:
        with pytest.raises(StateQueryError) as missing:
            state.list_tasks(filters=filters, timeout=0.5)
        if f"driver {pid} of node" not in str(missing.value):
            return 0
        return len(state.list_tasks(filters=filters, timeout=0.5, raise_on_missing_output=False))
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_node_that_does_not_answer_is_named_and_costs_the_others_nothing(cluster, get):
    get([tree.options(scheduling_strategy=on(n)).remote() for n in cluster.list_all_nodes()])
    stopped = cluster.list_all_nodes()[-1]
    pid = stopped.pid
    stop(pid)
    try:
        with pytest.raises(StateQueryError, match=stopped.node_id):
            state.list_workers(timeout=1.0)

        def answered():
            said = f"{stopped.node_id}.*: their workers are left out"
            with pytest.warns(UserWarning, match=said):
                found = state.list_workers(
                    timeout=1.0, raise_on_missing_output=False, _explain=True
                )
            return {row.node_id for row in found}

        others = {node.node_id for node in cluster.list_all_nodes()[:-1]}
        eventually(lambda: answered() == others)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_an_actor_is_listed_as_it_calls_itself(cluster, get):
    class Named:
        def __init__(self, name):
            self.name = name

        def __repr__(self):
            if self.name is None:
                raise ValueError
            return f"<{self.name}>"

    actors = [phalanx.remote(Named).options(num_cpus=0).remote(name) for name in ("x", None)]
    actors.append(Keeper.remote())
    for actor in actors:
        get(actor.__ray_ready__.remote())
    rows = {row.actor_id: row for row in state.list_actors(detail=True)}
    found = [rows[actor._actor_id.hex()] for actor in actors]
    assert [row.repr_name for row in found] == ["<x>", "", ""]
    assert [row.class_name for row in found] == [Named.__qualname__] * 2 + ["Keeper"]
    with pytest.warns(UserWarning, match="these are 1 of 3 actors"):
        state.list_actors(limit=1, _explain=True)
    made = {row.name for row in state.list_tasks(filters=[("type", "=", "ACTOR_CREATION_TASK")])}
    assert made == {"Named.__init__", "Keeper.__init__"}


def test_calls_are_listed_by_what_their_actor_or_their_caller_calls_them(cluster, get):
    class Named:
        def __init__(self, name):
            self.name = name

        def __repr__(self):
            return f"<{self.name}>"

        def call(self):
            pass

    actor = phalanx.remote(Named).options(num_cpus=0).remote("x")
    get([actor.call.remote(), actor.call.options(name="mine").remote()])
    mine = [("actor_id", "=", actor._actor_id.hex()), ("type", "=", "ACTOR_TASK")]
    rows = state.list_tasks(filters=mine)
    assert {row.name for row in rows} == {"<x>.call", "mine"}
    assert {row.func_or_class_name for row in rows} == {"Named.call"}
    assert len(state.list_tasks(filters=[*mine, ("name", "=", "<x>.call")])) == 1


def test_names_are_data(cluster, get, phalanx_command):
    hostile = "\x1b[31mred\x07<script>\n' OR 1=1 --"
    get(leaf.options(name=hostile).remote())
    listed = json.loads(phalanx_command("list", "tasks", "--json", "-f", "state=finished"))["rows"]
    assert hostile in {row["name"] for row in listed}
    shown = phalanx_command("list", "tasks")
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert hostile in {row.name for row in state.list_tasks(filters=[("name", "=", hostile)])}


@pytest.fixture
def phalanx_command(cluster):
    def run(*arguments):
        command = [sys.executable, "-m", "phalanx", *arguments, "--address", cluster.address]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run


@phalanx.remote(num_cpus=0)
def a_function_that_waits(pipe):
    with open(pipe) as reading:
        reading.read()


def test_stacks_of_all_processes(cluster, phalanx_command, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    node = cluster.list_all_nodes()[-1]
    ref = a_function_that_waits.options(scheduling_strategy=on(node)).remote(str(pipe))
    waiting = [("name", "=", "a_function_that_waits"), ("state", "=", "RUNNING")]

    def stack():
        running = state.list_tasks(filters=waiting)
        pids = [str(task.worker_pid) for task in running if task.worker_pid]
        return phalanx_command("stack", *pids, "--node", node.node_id[:12]) if pids else ""

    eventually(lambda: "a_function_that_waits" in stack())
    assert "MainThread" in stack()
    everybody = json.loads(phalanx_command("stack", "--json"))["rows"]
    assert os.getpid() in {row["pid"] for row in everybody}
    pipe.write_text("go on")
    phalanx.get(ref)

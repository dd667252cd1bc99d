"""Tasks whose nodes die: which are retried immediately, which wait for the head's news about the
node, and which fail.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.owner.test_owner_tasks import Script

from phalanx.model.node_deaths import KILLED, LOST, ORDERLY
from phalanx.owner.peers.redialling import GIVE_UP_S
from phalanx.owner.tasks.leases import NODE
from phalanx.protocol.node_messages import PARENT


class Nodes(Script):
    """Scripts with more words.

    `dies 1 a`: the worker of lease 1 is lost with the connection to node a. `killer 1`: it has
    ended because its parent process was killed. `lost_node a`, `killed_node a` and `left_node a`:
    the head says how node a has died.
    """

    def __init__(self, retries):
        super().__init__()
        self.retries = retries

    def submit(self, text):
        super().submit(text)
        for task in self.tasks.values():
            if task.retries != self.retries and not task.went_with:
                task.template = msgspec.structs.replace(task.template, max_retries=self.retries)
                task.retries = self.retries

    def on_dies(self, lease, node):
        worker = self.worker(lease)
        worker.worker = node.encode() * 6 + worker.worker[6:]
        self.machine.worker_lost(worker, "its node died", NODE)

    def _said(self, node, death):
        self.machine.node_deaths.node_died(node.encode() * 6, death, f"node {node} is gone")

    def on_killer(self, lease):
        self.machine.worker_lost(self.worker(lease), "its parent was killed", PARENT)

    def on_lost_node(self, node):
        self._said(node, LOST)

    def on_killed_node(self, node):
        self._said(node, KILLED)

    def on_left_node(self, node):
        self._said(node, ORDERLY)


BEFORE = "f; grant 1; dies 1 a; flush; grant 2; "
SENT = "want 1; send 1:1; retry 1; want 1; send 2:1; retry 1"


@pytest.mark.parametrize(
    ("retries", "script", "follows"),
    [
        (3, "killed_node a; dies 2 b", ""),  # it waits
        (3, "killed_node a; dies 2 b; killed_node b", "; fail 1 node deaths"),
        (-1, "killed_node a; dies 2 b; killed_node b", "; fail 1 node deaths"),
        (3, "dies 2 b; lost_node b; lost_node a", "; fail 1 node deaths"),
        (3, "dies 2 b; lost_node b; left_node a; flush", "; want 1"),
        (-1, "dies 2 b; lost_node b; flush", "; want 1"),
        (-1, "dies 2 b; lost_node b; lost_node a; flush", "; want 1"),
        (3, f"dies 2 b; after 0.1; after {GIVE_UP_S - 0.2}; flush", ""),
        (3, f"dies 2 b; after 0.1; after {GIVE_UP_S}; flush", "; want 1"),
    ],
)
def test_a_task_that_went_with_two_nodes(retries, script, follows):
    assert Nodes(retries).run(BEFORE + script) == SENT + follows


@pytest.mark.parametrize(
    ("retries", "script", "follows"),
    [
        (0, "killer 1", "fail 1 parent"),
        (9, "killer 1; after 9; flush; grant 2; killer 2", "fail 1 parents killed"),
        (-1, "killer 1; after 9; flush; grant 2; killer 2", "fail 1 parents killed"),
        (9, "killer 1; after 9; flush; grant 2; dies 2 b; killed_node b", "fail 1 node deaths"),
        (9, "killer 1; after 9; flush; grant 2; dies 2 b; left_node b; flush", "want 1"),
    ],
)
def test_a_task_that_takes_its_parent_along(retries, script, follows):
    assert Nodes(retries).run(f"f; grant 1; {script}").endswith(follows)


def test_one_that_is_known_to_have_gone_with_both_is_over_at_once():
    script = BEFORE + "killed_node a; killed_node b; dies 2 b"
    assert Nodes(3).run(script) == SENT.removesuffix("; retry 1") + "; fail 1 node deaths"


def test_one_that_waits_can_be_withdrawn_and_is_not_decided_later():
    world = Nodes(3)
    world.run(BEFORE + "dies 2 b")
    assert world.machine.withdraw(world.tasks[1])
    before = list(world.log)
    world.run("killed_node a; killed_node b; flush")
    assert world.log == before
    assert not world.machine.pending

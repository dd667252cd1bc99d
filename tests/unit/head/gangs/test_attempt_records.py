"""Records of attempts: each attempt has exactly one record, at whatever moment the head dies."""

from __future__ import annotations

import pytest
from tests.world.cluster import World
from tests.world.store import Journal, Ledger

from phalanx.head.accounting.records import MAX_TEXT
from phalanx.model.attempts import Used
from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.protocol.bundle_messages import MemberNews, MemberUsed
from phalanx.protocol.requests.jobs import CommandJob, DeleteJob, ListJobs

USED = Used(ran_s=7.0, cpu_s=5.0)


class Accounted(World):
    """A head whose usage ledger outlives it."""

    def __init__(self, **options):
        super().__init__(journal=Journal(is_slow=True), ledger=Ledger(), **options)

    def begun(self, node="n"):
        """Run a job of one member; return the order that started it."""
        self.add(node)
        process = Process(command=("train", "fast"), requests=(("CPU", 1.0),))
        template = Template(processes=(process,), grace_s=1.0)
        self.job(TaskGroup(name="a", template=template), user="ann")
        self.go_on()
        [order] = self.started()
        self.hear(node, MemberNews(order.group, order.index, order.attempt))
        self.go_on()
        return order

    def go_on(self):
        for _ in range(4):
            self.cycles()
            self.write()
            self.run()

    def records(self):
        self.write()
        self.ledger.keep()
        self.write()
        return list(self.ledger.rows.values())

    def left(self):
        """Return the rows that the store still keeps for the ledger."""
        return list(self.journal.storage.load("attempts"))


def ended(order, code=0, **fields):
    return MemberNews(order.group, order.index, order.attempt, code, used=USED, **fields)


def test_a_record_says_who_what_and_how():
    world = Accounted()
    order = world.begun()
    world.now += 7.0
    world.hear("n", ended(order, 3, reason="why"))
    [one] = world.records()
    assert (one.job, one.namespace, one.member, one.attempt) == ("job", "default", "a-0", 1)
    assert (one.user, one.queue, one.command) == ("ann", "default", "train fast")
    assert (one.state, one.exit_code, one.reason) == ("Failed", 3, "why")
    assert (one.cpus, one.memory, one.gpus) == (1.0, 0.0, 0.0)
    assert one.ended == world.now and one.started == world.now - 7.0
    assert one.waited_s == one.started - one.submitted
    assert one.used == USED
    assert not world.left(), "the ledger has it"


@pytest.mark.parametrize("written", range(6))
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_head_that_dies_at_any_moment_loses_no_record_and_doubles_none(written, is_kept):
    """The head dies when it has written `written` of the changes that follow a member's end, before
    or after the ledger has stored what it was given. The node repeats everything that was not
    confirmed.
    """
    world = Accounted()
    order = world.begun()
    news = ended(order)
    world.now += 7.0
    world.hear("n", news)
    for _ in range(min(written, len(world.journal.records))):
        changes, durable = world.journal.records.pop(0)
        world.journal.storage.apply(changes)
        if durable is not None:
            durable()
    is_confirmed = not world.journal.records
    if is_kept:
        world.ledger.keep()
    world.restart()
    world.add("n")
    world.now += 1.0
    if not is_confirmed:
        world.hear("n", news)
    world.go_on()
    assert [(one.state, one.attempt) for one in world.records()] == [("Completed", 1)]
    assert not world.left()


def test_long_texts_are_cut():
    world = Accounted()
    order = world.begun()
    world.hear("n", ended(order, 1, reason="why" * MAX_TEXT))
    [one] = world.records()
    assert len(one.reason) == MAX_TEXT


def test_a_member_whose_node_died_has_a_record_without_use():
    world = Accounted()
    world.begun()
    world.now += 9.0
    world.kill("n")
    [one] = world.records()
    assert (one.state, one.exit_code, one.used) == ("NodeLost", None, None)
    assert one.elapsed_s > 0


def test_what_an_evicted_member_used_comes_later():
    world = Accounted()
    order = world.begun()
    world.evict([0], world.gang_of(), claimant="default/urgent")
    world.hear("n", MemberUsed(order.group, order.index, order.attempt, USED))
    world.go_on()
    [one] = world.records()
    assert (one.state, one.used) == ("Preempted", None)
    assert one.reason == "its place went to default/urgent (preempt)"
    [key] = world.ledger.rows
    assert world.ledger.used == {key: USED}
    assert not world.left()


def test_a_cancelled_job_and_its_deletion():
    world = Accounted()
    order = world.begun()
    world.ask(CommandJob("default/job", "cancel"))
    world.hear("n", ended(order, 143))
    world.go_on()
    world.ask(DeleteJob("default/job"))
    world.go_on()
    assert world.ask(ListJobs()) == []
    assert [one.state for one in world.records()] == ["Terminated"]


def test_a_clock_that_is_set_back_makes_no_negative_times():
    world = Accounted()
    order = world.begun()
    world.now -= 50.0
    world.hear("n", ended(order))
    [one] = world.records()
    assert one.elapsed_s == 7.0 and one.waited_s == 0.0

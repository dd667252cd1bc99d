"""The calling side of an actor: the order of calls, and which calls survive a restart of the
actor.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.effort import examples
from tests.present import present

from phalanx.model.lifecycle import ALIVE
from phalanx.owner.actors.client import ENDS_TO_GO_ALONE, ActorClient, CallOptions, PendingCall


class Caller:
    """A client of one actor, and a log of the calls that it sent and of those that failed. Calls
    are numbered from 1.
    """

    def __init__(self, retries=0, out_of_order=False):
        self.log = []
        self.blamed = []
        self.retries = retries
        self.client = ActorClient(b"a", self)
        self.client.out_of_order = out_of_order
        self.calls = {}

    def send_calls(self, actor, calls, urgent):
        self.log.append(f"send {','.join(str(c.number) for c in calls)}")

    def fail_call(self, call, actor):
        self.log.append(f"fail {call.number}")

    def ended_under(self, call, actor):
        self.blamed.append((call.number, actor.ends))

    def call(self, missing=0, retries=None):
        number = len(self.calls) + 1
        retries = self.retries if retries is None else retries
        call = PendingCall(
            number, self.client, "m", b"", None, None, [], CallOptions(retries=retries)
        )
        call.missing = missing
        call.on_ready = lambda call: self.client.pump()
        self.calls[number] = call
        self.client.submit(call)
        return call

    def up(self):
        connection: Any = "here"
        self.client.state, self.client.connection = ALIVE, connection
        self.client.worker = b"worker"
        self.client.pump()

    def down(self):
        self.client.restarting()


def test_calls_wait_for_the_actor_and_go_in_order():
    caller = Caller()
    for _ in range(3):
        caller.call()
    assert caller.log == []
    caller.up()
    caller.call()
    assert caller.log == ["send 1,2,3", "send 4"]


def test_a_call_without_its_inputs_holds_up_those_behind_it():
    caller = Caller()
    caller.up()
    waiting = caller.call(missing=2)
    caller.call()
    waiting.notify()
    assert caller.log == []
    waiting.notify()
    assert caller.log == ["send 1,2"]


def test_a_call_that_ends_its_actor_again_and_again_goes_last_and_alone():
    caller = Caller(retries=-1)
    caller.client.concurrency = 1
    for _ in range(3):
        caller.call()
    caller.up()
    for _ in range(ENDS_TO_GO_ALONE):
        caller.down()
        caller.up()
    assert caller.log == ["send 1,2,3"] * 3 + ["send 2,3"]
    assert caller.blamed == [(1, 1), (1, 2), (1, 3)]
    assert caller.client.ended_under == "m"
    caller.client.finished(2)
    caller.client.finished(3)
    assert caller.log[-1] == "send 1"
    caller.call()
    assert caller.log[-1] == "send 1"  # alone
    caller.down()
    caller.up()
    assert caller.log[-2:] == ["send 1", "send 4"]
    assert caller.blamed[-1] == (1, 4)
    caller.client.finished(4)
    caller.call()
    caller.client.finished(1)
    assert caller.log[-2:] == ["send 1", "send 5"]


@pytest.mark.parametrize(("concurrency", "out_of_order"), [(0, False), (2, False), (1, True)])
def test_calls_that_may_have_run_side_by_side_are_tried_one_by_one(concurrency, out_of_order):
    caller = Caller(retries=-1, out_of_order=out_of_order)
    caller.client.concurrency = concurrency
    for _ in range(2):
        caller.call()
    caller.up()
    for _ in range(ENDS_TO_GO_ALONE):
        caller.down()
        caller.up()
    assert caller.log == ["send 1,2"] * 3 + ["send 1"]
    assert caller.client.ended_under == ""
    caller.down()
    caller.up()
    assert (caller.log[-1], caller.blamed) == ("send 2", [(1, 4)])
    caller.client.finished(2)
    assert caller.log[-1] == "send 1"
    caller.client.finished(1)
    caller.call()
    assert caller.log[-1] == "send 3"


def test_out_of_order_it_holds_up_nobody():
    caller = Caller(out_of_order=True)
    caller.up()
    waiting = caller.call(missing=1)
    caller.call()
    waiting.notify()
    assert caller.log == ["send 2", "send 1"]


def test_without_retries_what_is_under_way_fails_and_nothing_waits_for_the_restart():
    caller = Caller()
    caller.up()
    caller.call()
    caller.down()
    caller.call()
    caller.up()
    caller.call()
    assert caller.log == ["send 1", "fail 1", "fail 2", "send 3"]


def test_what_nobody_sent_yet_does_not_wait_for_the_restart_either():
    caller = Caller()
    caller.up()
    caller.client.connection = None  # its end was seen first
    caller.call()
    caller.call(missing=1)
    caller.call(retries=1)
    caller.down()
    assert caller.log == ["fail 1"]
    caller.calls[2].notify()
    caller.up()
    assert caller.log == ["fail 1", "send 2,3"]


def test_calls_of_an_actor_that_never_was_there_wait_although_it_is_tried_again():
    caller = Caller()
    caller.call()
    caller.down()  # its constructor's process has ended
    caller.call()
    caller.up()
    assert caller.log == ["send 1,2"]


def test_with_retries_what_is_under_way_goes_first_again_in_order():
    caller = Caller(retries=1)
    caller.up()
    for _ in range(3):
        caller.call()
    assert caller.client.finished(2) is caller.calls[2]
    caller.down()
    caller.call()
    caller.up()
    assert caller.log == ["send 1", "send 2", "send 3", "send 1,3,4"]
    caller.down()
    assert caller.log[4:] == ["fail 1", "fail 3"]
    assert [c.attempt for c in caller.calls.values()] == [1, 0, 1, 1]


def test_endless_retries_do_not_end():
    caller = Caller(retries=-1)
    caller.call()
    for _ in range(50):
        caller.up()
        caller.down()
    assert caller.log == ["send 1"] * 50


def test_a_cancelled_call_is_not_tried_again():
    caller = Caller(retries=-1)
    caller.up()
    caller.call().cancelled = "cancelled"
    caller.down()
    assert caller.log == ["send 1", "fail 1"]


def test_the_dead_fail_everything_at_once():
    caller = Caller(retries=-1)
    caller.up()
    caller.call()
    caller.call(missing=1)
    caller.client.dead()
    caller.call()
    assert caller.log == ["send 1", "fail 1", "fail 2", "fail 3"]


def test_a_retry_goes_ahead_of_later_calls():
    caller = Caller()
    caller.up()
    call = caller.call()
    caller.call(missing=1)
    assert present(caller.client.finished(1)) is call
    caller.client.retry(call)
    assert caller.log == ["send 1", "send 1"]


@pytest.mark.parametrize("sent", [True, False])
def test_only_what_is_not_on_its_way_is_withdrawn(sent):
    caller = Caller()
    if sent:
        caller.up()
    call = caller.call()
    assert caller.client.withdraw(call) is not sent
    assert caller.client.pending == int(sent)


class AnyOrder(RuleBasedStateMachine):
    """Checks that calls with endless retries reach each incarnation of the actor in order, under
    any sequence of events.
    """

    def __init__(self):
        super().__init__()
        self.caller = Caller(retries=-1)
        self.seen = 0
        self.done = set()

    @rule(missing=st.integers(0, 1))
    def call(self, missing):
        self.caller.call(missing)

    @rule()
    def inputs_come(self):
        for call in self.caller.calls.values():
            if call.missing:
                call.notify()
                return

    @rule()
    def comes_up(self):
        if self.caller.client.connection is None:
            self.caller.up()
            self.life = []

    @rule()
    def goes_down(self):
        self.caller.down()
        self.seen = len(self.caller.log)

    @precondition(lambda self: self.caller.client.inflight)
    @rule(data=st.data())
    def answers(self, data):
        number = data.draw(st.sampled_from(sorted(self.caller.client.inflight)))
        assert self.caller.client.finished(number) is not None
        self.done.add(number)

    @invariant()
    def in_order_within_a_life(self):
        """Check the order of calls within an incarnation. A call under which the actor has ended
        repeatedly is sent last, and alone.
        """
        calls = self.caller.calls.items()
        blamed = {number for number, call in calls if call.ends >= ENDS_TO_GO_ALONE}
        sent = [int(n) for line in self.caller.log[self.seen :] for n in line[5:].split(",")]
        assert len(sent) == len(set(sent))
        in_order = [number for number in sent if number not in blamed]
        assert in_order == sorted(in_order)

    @invariant()
    def nothing_is_lost(self):
        client = self.caller.client
        waiting = {c.number for c in client.queue} | set(client.inflight)
        assert waiting | self.done == set(self.caller.calls)
        assert not waiting & self.done


AnyOrder.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30)
TestAnyOrder = AnyOrder.TestCase

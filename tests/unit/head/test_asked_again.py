"""A node repeats a request if its connection ended before the answer came. If the head had already
carried the request out, the node gets the same answer again, and no error.
"""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.errors import JobCommandError, JobNotFoundError, QueueUnavailableError
from phalanx.model.principals import NOBODY
from phalanx.node.head_link import RemoteHeadLink
from phalanx.node.peers import Peer
from phalanx.protocol.cluster_messages import ForwardedAsk, ForwardedReply
from phalanx.protocol.membership_messages import Reported
from phalanx.protocol.requests.jobs import CommandJob, DeleteJob, ListJobs
from phalanx.protocol.requests.queues import CreateQueue, DeleteQueue, ListQueues, QueueFields
from phalanx.protocol.requests.request import NOTHING, Request, encode_request, read_result

from .test_full_store import DRIVER, PREFIX, Place, make_job


class Asking(Place):
    """A node that lost its connection and has joined again."""

    def answer_again(self, request: Request[Any]) -> Any:
        self.token += 1
        body = encode_request(request)
        ask = ForwardedAsk(self.token, DRIVER, request.kind, body, is_again=True)
        self.control.on_message(PREFIX, ask)
        (reply,) = self.replies(self.token)
        return read_result(request, reply.result, reply.error)


@pytest.fixture
def place() -> Asking:
    made = Asking()
    made.joins()
    return made


def test_a_queue_that_is_there_as_asked_was_made_by_the_request(place):
    request = CreateQueue("q", QueueFields(weight=3))
    made = place.answer(request)
    assert place.answer_again(request) == made
    with pytest.raises(JobCommandError, match="q"):
        place.answer(request)
    with pytest.raises(JobCommandError, match="q"):
        place.answer_again(CreateQueue("q", QueueFields(weight=4)))
    assert [q.weight for q in place.answer(ListQueues("q"))] == [3]


def test_a_queue_that_was_made_is_no_new_work_for_a_full_store(place):
    request = CreateQueue("q", QueueFields())
    made = place.answer(request)
    place.is_short(is_stalled=False)
    assert place.answer_again(request) == made


def test_a_queue_that_is_gone_was_deleted_by_the_request(place):
    place.answer(CreateQueue("q", QueueFields()))
    place.answer(DeleteQueue("q"))
    assert place.answer_again(DeleteQueue("q")) is None
    with pytest.raises(QueueUnavailableError):
        place.answer(DeleteQueue("q"))


def test_a_job_that_is_gone_was_deleted_by_the_request(place):
    place.answer(make_job("j"))
    place.answer(DeleteJob("j"))
    assert place.answer_again(DeleteJob("j")) is None
    with pytest.raises(JobNotFoundError):
        place.answer(DeleteJob("j"))


@pytest.mark.parametrize("command", ["cancel", "suspend"])
def test_a_job_that_a_command_has_changed_is_not_changed_again(place, command):
    place.answer(make_job("j"))
    place.answer(CommandJob("j", command))
    (before,) = place.answer(ListJobs())
    assert place.answer_again(CommandJob("j", command)) is None
    with pytest.raises(JobCommandError, match="is not allowed"):
        place.answer(CommandJob("j", command))
    assert [job.state for job in place.answer(ListJobs())] == [before.state]


def test_a_command_that_was_never_carried_out_still_fails(place):
    place.answer(make_job("j"))
    place.answer(CommandJob("j", "cancel"))
    with pytest.raises(JobCommandError, match="is not allowed"):
        place.answer_again(CommandJob("j", "suspend"))


class Connection(Peer):
    """The node's connection to a head."""

    principal = NOBODY

    def __init__(self) -> None:
        self.peer, self.tag = b"head", "head"
        self.posted: list[Any] = []

    def post(self, message: Any) -> None:
        self.posted.append(message)

    send = post


def _asked(connection: Connection) -> list[tuple[int, bool]]:
    return [(m.token, m.is_again) for m in connection.posted if isinstance(m, ForwardedAsk)]


def test_only_what_was_sent_before_is_asked_again():
    control = RemoteHeadLink()
    body = encode_request(ListJobs())
    answers: list[ForwardedReply] = []
    first, second, third = Connection(), Connection(), Connection()

    control.forward(DRIVER, 1, body, answers.append)  # before there is any head
    control.connected(first)
    control.forward(DRIVER, 2, body, answers.append)
    control.notify(ListJobs())
    assert _asked(first) == [(1, False), (2, False)]

    control.replied(ForwardedReply(1, NOTHING))
    control.disconnected()
    control.forward(DRIVER, 3, body, answers.append)
    control.connected(second)
    assert _asked(second) == [(2, True), (4, False)]
    assert [m.token for m in second.posted if isinstance(m, Reported)] == [3]

    control.disconnected()
    control.connected(third)
    assert _asked(third) == [(2, True), (4, True)]

"""The texts of a client about the job of its driver: why the job waits, and why it has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.errors import JobNotFoundError, SystemFailureError
from phalanx.protocol.requests.jobs import GetJob, ListJobs, ReadJobLog
from phalanx.protocol.requests.request import Request
from phalanx.runtime.client.joining import ClientOf
from phalanx.runtime.daemons.personal_token import new_token
from phalanx.runtime.daemons.trust import Trust


class Client(ClientOf, frozen=True):
    """A client whose head gives these answers, by the type of the request."""

    answers: dict[type[Request[Any]], Any]

    def _ask(self, request: Request[Any]) -> Any:
        answer = self.answers[type(request)]
        if isinstance(answer, Exception):
            raise answer
        return answer


def client(jobs: Any, detail: Any = None, log: Any = None) -> Client:
    answers: dict[type[Request[Any]], Any] = {ListJobs: jobs, GetJob: detail, ReadJobLog: log}
    return Client(
        address="lab:6380", token=new_token(), trust=Trust(), job="default/client-1", secret=b"",
        reconnect_s=1.0, answers=answers,
    )  # fmt: skip


def job(state: str, reason: str = "") -> list[Any]:
    return [SimpleNamespace(state=state, reason=reason)]


def test_a_driver_that_runs_or_waits() -> None:
    assert client(jobs=job("Running", "1 member runs")).check_job() == ""
    waiting = client(jobs=job("Pending", "the queue is closed"))
    assert waiting.check_job() == "the queue is closed"


def test_a_driver_that_has_ended_says_its_last_words() -> None:
    found = client(
        jobs=job("Failed", "worker-0: exit code 1"),
        detail=SimpleNamespace(members=[SimpleNamespace(name="client-1-worker-0")]),
        log=SimpleNamespace(data=b"Traceback\n  ...\nConnectionError: another account\n"),
    )
    with pytest.raises(SystemFailureError) as raised:
        found.check_job()
    for words in ("is Failed: worker-0: exit code 1", "ends with: ConnectionError: another"):
        assert words in str(raised.value)


@pytest.mark.parametrize("missing", [JobNotFoundError("no log"), SimpleNamespace(data=b"")])
def test_a_driver_without_output_has_ended_all_the_same(missing: Any) -> None:
    member = SimpleNamespace(members=[SimpleNamespace(name="w")])
    found = client(jobs=job("Aborted"), detail=member, log=missing)
    with pytest.raises(SystemFailureError, match=r"is Aborted; phalanx logs .* its output$"):
        found.check_job()


def test_a_job_that_was_deleted() -> None:
    with pytest.raises(SystemFailureError, match="was deleted"):
        client(jobs=JobNotFoundError("there is no job")).check_job()

"""If a listing asks for the latest tasks, the tasks that ended last come first."""

from __future__ import annotations

import pytest
from tests.polling import PATIENCE_S, eventually

import phalanx
from phalanx.api.session import running_engine
from phalanx.observe.state.query import StateQuery
from phalanx.protocol.requests.state import QueryState


@pytest.fixture(scope="module", autouse=True)
def session():
    phalanx.shutdown()
    phalanx.init(num_cpus=2, log_to_driver=False)
    yield
    phalanx.shutdown()


def latest(limit, *filters):
    query = StateQuery("tasks", list(filters), limit, True, is_latest=True)
    return running_engine().ask(QueryState(query)).part


def ends_of(name):
    return [row["end_time_ms"] for row in latest(100, ("name", "=", name)).rows]


def test_the_last_of_many_tasks_are_listed_with_their_times():
    f = phalanx.remote(lambda: 1)
    for name in ("early", "later", "last"):
        phalanx.get([f.options(name=name).remote() for _ in range(20)], timeout=PATIENCE_S)
    eventually(lambda: latest(1).total == 60)
    part = latest(30)
    ends = [row["end_time_ms"] for row in part.rows]
    assert len(ends) == 30
    assert ends == sorted(ends, reverse=True)
    # Tasks of two names may have ended in the same millisecond, in any order among themselves.
    everyone = sorted(ends_of("early") + ends_of("later") + ends_of("last"), reverse=True)
    assert ends == everyone[:30]
    of_last = [row for row in part.rows if row["name"] == "last"]
    assert len(of_last) == 20 or ends[-1] == min(ends_of("last"))
    assert all(row["start_time_ms"] and row["worker_id"] for row in part.rows)
    assert len(latest(5, ("name", "=", "early")).rows) == 5

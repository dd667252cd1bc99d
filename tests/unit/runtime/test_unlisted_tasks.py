"""Tasks that listings leave out, and the rows of an actor's constructor that raised an
exception.
"""

from __future__ import annotations

import pytest
from tests.polling import PATIENCE_S, eventually

import phalanx
from phalanx.errors import ActorDiedError
from phalanx.util.placement_group import placement_group, remove_placement_group
from phalanx.util.state import list_tasks


@pytest.fixture(scope="module", autouse=True)
def session():
    phalanx.shutdown()
    phalanx.init(num_cpus=2, log_to_driver=False)
    yield
    phalanx.shutdown()


class Plain:
    def listed(self):
        return 1

    @phalanx.method(enable_task_events=False)
    def unlisted(self):
        return 1


def names():
    return {row["name"] for row in list_tasks(limit=1000)}


def test_what_has_no_task_events_is_not_listed():
    quiet = phalanx.remote(enable_task_events=False)(lambda: 1).options(name="quiet task")
    loud = phalanx.remote(lambda: 1).options(name="loud task")
    failing = phalanx.remote(lambda: 1 / 0).options(name="quiet failure", enable_task_events=False)
    actor = phalanx.remote(Plain).remote()

    class Hidden(Plain):
        pass

    hidden = phalanx.remote(Hidden).options(enable_task_events=False).remote()
    refs = [
        quiet.remote(),
        loud.remote(),
        actor.unlisted.remote(),
        actor.listed.options(name="loud call").remote(),
        actor.listed.options(name="quiet call", enable_task_events=False).remote(),
        hidden.listed.options(name="quiet as its actor").remote(),
        hidden.listed.options(name="loud in a quiet actor", enable_task_events=True).remote(),
    ]
    phalanx.get(refs, timeout=PATIENCE_S)
    with pytest.raises(ZeroDivisionError):
        phalanx.get(failing.remote(), timeout=PATIENCE_S)
    loud_ones = {"loud task", "loud call", "loud in a quiet actor"}
    eventually(lambda: loud_ones <= names())
    assert not [name for name in names() if "quiet" in name and name not in loud_ones]
    assert "Plain.__init__" in names()
    assert not {"Plain.unlisted", "Hidden.__init__"} & names()


def test_what_waits_without_task_events_is_not_listed():
    never = phalanx.remote(num_cpus=0, resources={"nowhere": 1})(lambda: 1)
    waiting = never.options(name="seen").remote()
    hidden = never.options(name="unseen", enable_task_events=False).remote()
    eventually(lambda: "seen" in names())
    assert "unseen" not in names()
    for ref in (waiting, hidden):
        phalanx.cancel(ref)


def test_ready_of_a_group_is_no_task_of_the_programs():
    before = names()
    group = placement_group([{"CPU": 1}])
    phalanx.get(group.ready(), timeout=PATIENCE_S)
    phalanx.get(phalanx.remote(lambda: 1).options(name="after").remote(), timeout=PATIENCE_S)
    eventually(lambda: "after" in names())
    assert names() - before == {"after"}
    remove_placement_group(group)


def test_a_constructor_that_raised_has_an_error_type():
    class Broken:
        def __init__(self):
            raise KeyError("not made")

        def ping(self):
            return 1

    with pytest.raises(ActorDiedError):
        phalanx.get(phalanx.remote(Broken).remote().ping.remote(), timeout=PATIENCE_S)
    (row,) = list_tasks(filters=[("name", "=", "Broken.__init__")], detail=True)
    assert (row["state"], row["error_type"]) == ("FAILED", "TASK_EXECUTION_EXCEPTION")


def test_an_attempt_that_raised_has_the_first_line_of_its_exception():
    def broken_step():
        raise ValueError("loss is NaN\nat step 3")

    class Lamp:
        def blow(self):
            raise OSError("the fuse")

    lamp = phalanx.remote(Lamp).remote()
    for ref in (phalanx.remote(broken_step).remote(), lamp.blow.remote()):
        with pytest.raises((ValueError, OSError)):
            phalanx.get(ref, timeout=PATIENCE_S)
    said = {
        row["name"]: row["error_message"]
        for name in ("broken_step", "Lamp.blow")
        for row in list_tasks(filters=[("name", "=", name)], detail=True)
    }
    assert said == {"broken_step": "ValueError: loss is NaN", "Lamp.blow": "OSError: the fuse"}

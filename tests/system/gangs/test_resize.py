"""Jobs that are resized while they run or wait."""

from __future__ import annotations

import pytest
from tests.polling import PATIENCE_S, eventually

import phalanx
from phalanx.errors import GangInfeasibleError, JobCommandError, JobNotFoundError

from .conftest import none_left


@pytest.fixture(autouse=True)
def nothing_left(machine):
    yield
    for row in phalanx.jobs():
        phalanx.JobHandle(row["name"], row["namespace"]).delete()
    eventually(none_left)


def hold(room, **options):
    """Submit a job whose members record their index, attempt and rank, and wait; return its
    handle.
    """
    command = (
        f"touch {room.path}/$PHALANX_TASK_INDEX.$PHALANX_ATTEMPT.$RANK; "
        f"while [ ! -e {room.path}/go ]; do sleep 0.05; done"
    )
    return phalanx.submit(phalanx.Job(command, **options))


def names(job):
    return [member["name"] for member in job.describe()["members"]]


def test_a_job_grows_and_shrinks_while_it_runs(machine, room):
    job = hold(room, members=2)
    for word in ("0.1.0", "1.1.1"):
        room.wait(word)
    job.resize(4)
    for word in ("2.1.2", "3.1.3"):
        room.wait(word)
    assert room.words() == ["0.1.0", "1.1.1", "2.1.2", "3.1.3"]
    job.resize(1)
    eventually(lambda: names(job) == ["worker-0"])
    eventually(lambda: phalanx.available_resources().get("CPU") == 3)
    job.resize(2)
    room.wait("1.2.1")
    told = job.describe()
    assert (told["state"], told["replicas"], told["min"]) == ("Running", 2, 1)
    assert [member["attempt"] for member in told["members"]] == [1, 2]
    room.say("go")
    assert job.wait(PATIENCE_S) == "Completed"
    assert job.describe()["succeeded"] == 2


def test_what_a_job_grows_by_waits_for_room_and_the_others_run_on(machine, room):
    job = hold(room, members=3)
    room.wait("2.1.2")
    job.resize(6)
    room.wait("3.1.3")
    told = job.describe()
    assert (told["state"], told["running"], told["pending"], told["min"]) == ("Running", 4, 2, 3)
    room.say("go")
    assert job.wait(PATIENCE_S) == "Completed"
    assert sorted(word.partition(".")[0] for word in room.words()) == [*"012345", "go"]


def test_a_job_that_waits_becomes_small_enough_to_run(machine, room):
    first = hold(room, members=3)
    room.wait("2.1.2")
    second = phalanx.submit(phalanx.Job("true", members=3))
    assert second.state == "Pending"
    second.resize(1)
    assert second.wait(PATIENCE_S) == "Completed"
    room.say("go")
    first.wait(PATIENCE_S)


def test_a_job_of_several_groups_is_resized_by_group(machine, room):
    group = {
        "name": "one",
        "replicas": 1,
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "command": ["sleep", "1000"],
                        "resources": {"requests": {"cpu": "500m"}},
                    }
                ]
            }
        },
    }
    job = phalanx.submit(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "two"},
            "spec": {"tasks": [group, group | {"name": "other"}]},
        }
    )
    job.resize({"other": 3}, min_members=2)
    eventually(lambda: job.describe()["running"] == 4)
    assert names(job) == ["one-0", "other-0", "other-1", "other-2"]
    with pytest.raises(JobCommandError, match="groups one, other: name the group"):
        job.resize(3)


def test_what_cannot_be_is_said_and_changes_nothing(machine, room):
    job = hold(room, members=2, name="odd")
    room.wait("1.1.1")
    cases = [
        (lambda: job.resize({"boss": 2}), JobCommandError, "no group 'boss'; it has worker"),
        (lambda: job.resize(-1), JobCommandError, "0 to 100,000 replicas, not -1"),
        (lambda: job.resize(2, min_members=3), JobCommandError, "cannot need 3"),
        (lambda: job.resize(9, min_members=9), GangInfeasibleError, "never have more than 4"),
        (lambda: phalanx.JobHandle("none").resize(1), JobNotFoundError, "no job 'default/none'"),
    ]
    for ask, error, words in cases:
        with pytest.raises(error, match=words):
            ask()
    assert (job.describe()["replicas"], job.state) == (2, "Running")
    room.say("go")
    assert job.wait(PATIENCE_S) == "Completed"
    with pytest.raises(JobCommandError, match="Completed"):
        job.resize(3)

"""Jobs of commands: what members see, and how jobs end, wait, and are restarted, suspended and
evicted.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.polling import PATIENCE_S, eventually

import phalanx
from phalanx.errors import (
    GangInfeasibleError,
    GetTimeoutError,
    JobCommandError,
    JobNotFoundError,
    QueueUnavailableError,
)
from phalanx.manifests.findings import ManifestError

from .conftest import none_left

EXAMPLES = Path(__file__).parents[3] / "examples" / "jobs"


@pytest.fixture(autouse=True)
def nothing_left(machine):
    yield
    for row in phalanx.jobs():
        with contextlib.suppress(JobNotFoundError):  # one of a flow or cron job that was deleted
            phalanx.JobHandle(row["name"], row["namespace"]).delete()
    eventually(none_left)
    eventually(lambda: not phalanx.jobs())


def run(command, **options):
    """Submit a job; return its handle."""
    return phalanx.submit(phalanx.Job(command, **options))


def states(job):
    return [member["state"] for member in job.describe()["members"]]


def until(room, word):
    """Return shell code that leaves a mark and waits for another one."""
    path = shlex.quote(str(room.path))
    return f"touch {path}/{word}; while [ ! -e {path}/go ]; do sleep 0.05; done"


def test_members_find_their_ranks_devices_and_directory(machine, tmp_path):
    command = "echo $RANK/$WORLD_SIZE $MASTER_ADDR $CUDA_VISIBLE_DEVICES $WORD; pwd"
    job = run(command, members=2, num_gpus=2, env={"WORD": "hello"}, working_dir=str(tmp_path))
    assert job.wait(PATIENCE_S) == "Completed"
    assert job.logs(0) == f"0/2 127.0.0.1 0,1 hello\n{tmp_path}\n"
    assert job.logs("worker-1") == f"1/2 127.0.0.1 2,3 hello\n{tmp_path}\n"
    told = job.describe()
    assert [m["exit_code"] for m in told["members"]] == [0, 0]
    assert [one["new"] for one in told["history"]] == ["Pending", "Running", "Completed"]


def test_a_job_without_a_directory_runs_in_one_of_its_own(machine):
    job = run("pwd; echo x > file; ls", working_dir="")
    assert job.wait(PATIENCE_S) == "Completed"
    directory = job.logs().split()[0]
    assert "/jobs/" in directory
    assert job.name not in directory, "paths are made from ids alone"
    assert "file" in job.logs()


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("echo before; exit 3", 3, "before"),
        (["no-such-command"], 127, "there is no command no-such-command"),
        ("kill -11 $$", 139, ""),
    ],
)
def test_a_command_that_fails_fails_the_job_and_says_how(machine, command, code, words):
    job = run(command)
    assert job.wait(PATIENCE_S) == "Failed"
    told = job.describe()
    assert told["members"][0]["exit_code"] == code
    assert words in job.logs()
    assert told["retries"] == 0


def test_a_directory_that_is_not_there_is_named(machine, tmp_path):
    job = run("true", working_dir=str(tmp_path / "nowhere"))
    assert job.wait(PATIENCE_S) == "Failed"
    assert f"there is no directory {tmp_path}/nowhere" in job.logs()


def test_what_a_command_leaves_running_ends_with_it(machine, tmp_path):
    job = run(f"sleep 1000 & echo $! > {tmp_path}/pid")
    assert job.wait(PATIENCE_S) == "Completed"
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))


def test_one_member_that_fails_ends_all_and_they_start_again(machine, room):
    path = shlex.quote(str(room.path))
    command = (
        f"if [ $RANK = 1 ] && mkdir {path}/once; then exit 5; fi; "
        f"[ -e {path}/once ] && [ $PHALANX_ATTEMPT = 2 ] && exit 0; sleep 1000"
    )
    job = run(command, members=2, max_retries=1, grace_s=5)
    assert job.wait(PATIENCE_S) == "Completed"
    told = job.describe()
    assert told["retries"] == 1
    assert [m["attempt"] for m in told["members"]] == [2, 2]
    assert job.logs(1, attempt=0) == ""
    assert len(told["members"][0]["logs"]) == 2


def test_a_job_waits_says_why_and_runs_when_there_is_room(machine, room):
    first = run(until(room, "first"), members=4)
    second = run("echo second", members=3)
    room.wait("first")
    assert second.state == "Pending"
    [row] = [row for row in phalanx.jobs() if row["name"] == second.name]
    assert (row["position"], row["pending"]) == (1, 3)
    assert "CPU" in row["reason"]
    told = phalanx.explain(second)
    assert "waits" in told
    assert "number 1 of those that wait" in told
    with pytest.raises(GetTimeoutError):
        second.wait(0.01)
    room.say("go")
    assert [first.wait(PATIENCE_S), second.wait(PATIENCE_S)] == ["Completed", "Completed"]


def test_suspend_ends_the_members_and_resume_starts_them_again(machine, room):
    job = run(until(room, "there"), members=2, grace_s=5)
    room.wait("there")
    assert (job.signal("SIGWINCH"), job.signal(28, to="all", member=1)) == (2, 1)
    with pytest.raises(ValueError, match="'USRR' is no signal"):
        job.signal("USRR")
    job.suspend()
    assert job.wait(PATIENCE_S) == "Aborted"
    with pytest.raises(JobCommandError, match="does not run: it is Aborted"):
        job.signal("USR1")
    assert states(job) == ["Ended", "Ended"]
    eventually(none_left)
    with pytest.raises(JobCommandError, match="Aborted"):
        job.suspend()
    room.say("go")
    job.resume()
    assert job.wait(PATIENCE_S) == "Completed"
    assert job.describe()["retries"] == 0


def test_cancel_ends_a_job_that_runs_and_one_that_waits(machine, room):
    runs = run(until(room, "there"), members=4, grace_s=5)
    waits = run("true", members=4)
    room.wait("there")
    for job in (waits, runs):
        job.cancel()
        assert job.wait(PATIENCE_S) == "Terminated"
    eventually(none_left)


def test_who_ignores_the_request_to_end_is_killed_after_its_grace(machine, room):
    job = run(f"trap '' TERM; {until(room, 'deaf')}", grace_s=0.1)
    room.wait("deaf")
    job.cancel()
    assert job.wait(PATIENCE_S) == "Terminated"


def test_a_member_that_runs_too_long_is_ended(machine):
    job = run("sleep 1000", time_limit_s=0.2, grace_s=5)
    assert job.wait(PATIENCE_S) == "Failed"
    member = job.describe()["members"][0]
    assert member["exit_code"] == 124
    assert "ran longer than 0.2 s" in member["reason"]


def test_a_higher_priority_evicts_a_job_which_runs_again_at_no_cost(machine, room):
    path = shlex.quote(str(room.path))
    low = run(
        f"trap 'touch {path}/warned-'$RANK'; exit 1' TERM; {until(room, 'low-$RANK')}",
        members=3,
        grace_s=60,
    )
    for rank in range(3):
        room.wait(f"low-{rank}")
    high = run(until(room, "high"), members=4, priority=7)
    room.wait("high")
    assert low.state == "Pending"
    assert [room.hears(f"warned-{rank}") for rank in range(3)] == [True] * 3
    room.say("go")
    assert high.wait(PATIENCE_S) == "Completed"
    assert low.wait(PATIENCE_S) == "Completed"
    told = low.describe()
    assert (told["retries"], [m["attempt"] for m in told["members"]]) == (0, [2, 2, 2])


@pytest.mark.parametrize(
    "name", ["two-groups", "data-parallel", "master-and-workers", "one-after-another"]
)
def test_the_examples_complete(machine, name):
    (job,) = phalanx.submit_manifests(EXAMPLES / f"{name}.yaml")
    assert isinstance(job, phalanx.JobHandle)
    assert job.wait(PATIENCE_S) == "Completed"


def test_the_example_of_a_flow_runs_its_steps_in_order(machine):
    made = phalanx.submit_manifests(EXAMPLES / "flow.yaml")
    assert [(getattr(one, "kind", ""), getattr(one, "done", "")) for one in made] == [
        ("JobTemplate", "created"),
        ("JobTemplate", "created"),
        ("JobFlow", "created"),
    ]
    rows = {}

    def has_succeeded():
        rows.update({row["name"]: row for row in phalanx.jobs()})
        return [row["state"] for row in rows.values()] == ["Completed", "Completed"]

    eventually(has_succeeded)
    first, second = rows["prepare-then-train-prepare"], rows["prepare-then-train-train"]
    assert first["finished"] <= second["submitted"]
    phalanx.JobHandle("prepare-then-train").delete()


def manifest(name="odd", **spec):
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "tasks": [
                {
                    "name": "main",
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "c",
                                    "command": ["true"],
                                    "resources": {"requests": {"cpu": 1}},
                                },
                            ]
                        }
                    },
                }
            ],
        }
        | spec,
    }


def test_a_cron_job_makes_jobs_until_it_is_suspended(machine):
    cron = manifest("often") | {"kind": "CronJob"}
    template = {"spec": cron["spec"]}
    cron["spec"] = {"schedule": "@every 1s", "jobTemplate": template}
    phalanx.submit_manifests(cron)
    eventually(lambda: any(row["state"] == "Completed" for row in phalanx.jobs()))
    phalanx.JobHandle("often").suspend()
    phalanx.JobHandle("often").delete()


def test_containers_run_side_by_side_after_those_that_come_before(machine):
    spec = manifest()["spec"]
    pod = spec["tasks"][0]["template"]["spec"]
    pod["initContainers"] = [{"name": "i", "command": ["sh", "-c", "echo before"]}]
    pod["containers"].append({"name": "d", "command": ["sh", "-c", "echo beside"]})
    pod["containers"][0]["command"] = ["sh", "-c", "echo main"]
    job = phalanx.submit(manifest(**spec))
    assert job.wait(PATIENCE_S) == "Completed"
    lines = job.logs().split()
    assert lines[0] == "before"
    assert sorted(lines[1:]) == ["beside", "main"]


def test_what_cannot_be_is_said_at_once_and_leaves_nothing(machine):
    taken = run("true", name="taken")
    taken.wait(PATIENCE_S)
    no_job: Any = "job.yaml"
    cases = [
        (lambda: run("true", name="taken"), JobCommandError, "job default/taken exists already"),
        (lambda: run("true", members=5), GangInfeasibleError, "never have more than 4"),
        (lambda: run("true", num_gpus=8), GangInfeasibleError, "could never start here: .* 4 GPU"),
        (lambda: run("true", queue="nobody"), QueueUnavailableError, "no queue 'nobody'"),
        (lambda: phalanx.submit(no_job), TypeError, "submit_manifests"),
        (lambda: phalanx.submit({"kind": "Queue"}), TypeError, "submit_manifests"),
        (lambda: phalanx.JobHandle("none").cancel(), JobNotFoundError, "no job 'default/none'"),
        (lambda: phalanx.submit({"kind": "Job"}), ManifestError, "at least one task"),
        (
            lambda: phalanx.submit(manifest(priorityClassName="none")),
            ValueError,
            "no priority class 'none'",
        ),
    ]
    for ask, error, words in cases:
        with pytest.raises(error, match=words):
            ask()
    assert [row["name"] for row in phalanx.jobs()] == ["taken"]


def test_a_python_program_meets_the_others_over_the_rendezvous_port(machine, tmp_path):
    program = tmp_path / "meet.py"
    program.write_text(
        "import os, socket, time\n"
        "where = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
        "if os.environ['RANK'] == '0':\n"
        "    with socket.create_server(where) as server:\n"
        "        server.accept()[0].sendall(b'met')\n"
        "else:\n"
        "    while True:\n"
        "        try:\n"
        "            print(socket.create_connection(where).recv(9).decode())\n"
        "            break\n"
        "        except OSError:\n"
        "            time.sleep(0.05)\n"
    )
    job = run([sys.executable, str(program)], members=2)
    assert job.wait(PATIENCE_S) == "Completed"
    assert job.logs(1) == "met\n"

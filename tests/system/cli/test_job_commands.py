"""Jobs and queues from the command line, on a cluster that runs as daemons."""

from __future__ import annotations

import json
import os
import re
import signal
import sys

import pytest
from tests.polling import eventually

from phalanx.errors import MessageTooLargeError
from phalanx.protocol.requests.jobs import GetJob
from phalanx.runtime.daemons import visitor


@pytest.fixture
def cluster(machine):
    """A head whose node has four CPUs and four virtual GPUs."""
    machine.start_head("--num-cpus", "4", "--num-gpus", "4")
    return machine


def test_run_shows_what_members_print_and_ends_as_they_do(cluster, tmp_path):
    # The member that fails ends the other: it waits until that one has printed.
    program = (
        f"echo rank $RANK; F={tmp_path}/printed; "
        "[ $RANK = 1 ] || touch $F; until [ -e $F ]; do :; done; exit $RANK"
    )
    ended = cluster.phalanx("run", "--gang", "2", "--gpus", "1", "--", "sh", "-c", program)
    assert sorted(ended.stdout.split("\n")) == ["", "worker-0 | rank 0", "worker-1 | rank 1"]
    assert ended.returncode == 1
    ended = cluster.phalanx("run", "-n", "one", "-e", "WORD=hi", "--", "sh", "-c", "echo $WORD")
    assert (ended.returncode, ended.stdout) == (0, "hi\n")
    assert cluster.done("logs", "one") == "hi\n"
    assert cluster.phalanx("logs", "one.nobody").returncode == 3
    assert cluster.phalanx("run", "--", "no-such-command").returncode == 127


def test_run_ends_what_uses_more_than_its_memory(cluster):
    # The memory is a child's, which has left the session of its command.
    hog = "import time; held = b'x' * (80 << 20); time.sleep(1000)"
    program = f'setsid {sys.executable} -c "{hog}" & wait'
    ended = cluster.phalanx("run", "-n", "hog", "--memory", "50Mi", "--", "sh", "-c", program)
    assert ended.returncode == 137
    (member,) = cluster.ask(GetJob("hog")).members
    assert re.fullmatch(
        r"out of memory: it used [\d.]+ MiB, above its limit of 50 MiB", member.reason
    )


def test_a_queue_that_takes_no_work_is_refused_by_every_command(cluster, tmp_path):
    cluster.done("queue", "create", "shut")
    cluster.done("queue", "close", "shut")
    container = {"name": "c", "command": ["true"]}
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    for queue, why in (("none", "there is no queue 'none'"), ("shut", "queue shut is Closed")):
        manifest = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "refused"},
            "spec": {"queue": queue, "tasks": [task]},
        }
        path = tmp_path / "job.json"
        path.write_text(json.dumps(manifest))
        for command in (("run", "--queue", queue, "--", "true"), ("submit", str(path))):
            refused = cluster.phalanx(*command)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert why in refused.stderr
    assert "refused" not in cluster.jobs()
    cluster.done("queue", "delete", "shut")


def test_a_queue_and_its_jobs_from_beginning_to_end(cluster, tmp_path):
    cluster.done("queue", "create", "lab", "--weight", "2", "--capability", "CPU=3,GPU=2")
    lab = json.loads(cluster.done("queue", "get", "lab", "--json"))
    assert (lab["weight"], lab["capability"]) == (2, {"CPU": 3.0, "GPU": 2.0})
    assert "lab" in cluster.done("queue", "list")
    assert cluster.done("queues") == cluster.done("queue", "list")
    too_large = cluster.phalanx("run", "--gang", "3", "--gpus", "1", "-q", "lab", "--", "true")
    assert too_large.returncode == 5
    assert "queue lab may use" in too_large.stderr
    hold = ("run", "--gang", "2", "--gpus", "1", "-q", "lab", "-d")
    assert cluster.done(*hold, "-n", "runs", "--", "sleep", "1000") == "runs\n"
    assert cluster.done(*hold, "-n", "waits", "--", "true") == "waits\n"
    eventually(lambda: cluster.jobs()["runs"]["state"] == "Running")
    listed = {row["name"]: row for row in json.loads(cluster.done("jobs", "--json"))}
    assert {name: row["state"] for name, row in listed.items()} == {
        "runs": "Running",
        "waits": "Pending",
    }
    assert listed["waits"]["position"] == 1
    assert "number 1 of those that wait" in cluster.done("explain", "waits")
    assert json.loads(cluster.done("explain", "waits", "--json"))["waits"]
    assert "nobody" in cluster.phalanx("explain", "--actor", "nobody").stderr
    table = cluster.done("jobs", "-q", "lab")
    assert "runs" in table
    assert "queue lab may hold" in table
    described = cluster.done("job", "runs")
    assert "Running" in described
    assert "\ncommand: sleep 1000\n" in described
    resized = cluster.done("resize", "waits", "worker=3", "--min", "2")
    assert resized == "job waits has 3 replicas, of which 2 must run together\n"
    assert cluster.jobs()["waits"]["pending"] == 3
    cluster.done("resize", "waits", "2")
    assert cluster.phalanx("resize", "waits", "some").returncode == 2
    assert "no group 'boss'" in cluster.phalanx("resize", "waits", "boss=1").stderr
    picture = tmp_path / "snapshot.json"
    cluster.done("snapshot", "-o", str(picture))
    assert "waits" in cluster.done("explain", str(picture), "waits")
    assert "0 binds" in cluster.done("replay", str(picture))
    assert cluster.done("requeue", "runs") == "job runs is requeued\n"
    eventually(lambda: cluster.jobs()["runs"]["state"] == "Running")
    assert "RestartJob: by command" in cluster.done("job", "runs")
    refused = cluster.phalanx("requeue", "waits")
    assert (refused.returncode, "only running work can be requeued" in refused.stderr) == (1, True)
    cluster.done("suspend", "runs")
    eventually(lambda: cluster.jobs()["waits"]["state"] == "Completed")
    cluster.done("resume", "runs")
    cluster.done("cancel", "runs")
    eventually(lambda: cluster.jobs()["runs"]["state"] == "Terminated")
    assert cluster.done("queue", "close", "lab") == "queue lab is closed\n"
    closed = cluster.phalanx("run", "-q", "lab", "--", "true")
    assert closed.returncode == 1
    assert "Closed" in closed.stderr
    cluster.done("queue", "open", "lab")
    cluster.done("queue", "update", "lab", "--weight", "7")
    cluster.done("delete", "runs", "waits")
    assert cluster.jobs() == {}
    cluster.done("queue", "delete", "lab")
    missing = cluster.phalanx("job", "runs")
    assert (missing.returncode, missing.stderr) == (
        3,
        "there is no job 'runs'; `phalanx jobs` lists them\n",
    )


def test_submit_takes_manifests_and_says_what_is_wrong_with_them(cluster, tmp_path):
    here = os.path.dirname(__file__)
    example = os.path.join(here, "..", "..", "..", "examples", "jobs", "two-groups.yaml")
    assert cluster.done("submit", example, "--wait") == "Job two-groups created\n"
    assert "worker-1 | worker 1" in cluster.done("logs", "two-groups")
    again = cluster.phalanx("submit", example)
    assert again.returncode == 1
    assert "job default/two-groups exists already" in again.stderr
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n")
    refused = cluster.phalanx("submit", str(wrong))
    assert refused.returncode == 1
    assert "at least one task" in refused.stderr
    assert cluster.phalanx("submit", str(tmp_path / "none.yaml")).returncode == 2


def test_ctrl_c_ends_what_run_follows(cluster):
    code = "from phalanx.cli import main; main()"
    arguments = ["run", "-n", "long", "--", "sh", "-c", "echo begun; sleep 1000"]
    process = cluster.begin(code, *arguments)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "job long is cancelled" in said
    eventually(lambda: cluster.jobs()["long"]["state"] == "Terminated")


@pytest.mark.parametrize("command", ["run", "alloc"])
def test_who_means_so_many_members_is_not_given_one_of_that_name(machine, command):
    ended = machine.phalanx(command, "-n", "4", "--", "true")
    assert ended.returncode == 2
    assert "for 4 members give --gang 4" in ended.stderr


def test_without_a_cluster_commands_say_so(machine):
    for command in (["jobs"], ["queue", "list"], ["run", "--", "true"], ["explain", "some"]):
        ended = machine.phalanx(*command)
        assert ended.returncode == 1
        assert "phalanx start --head" in ended.stderr


def test_a_long_output_is_read_and_a_large_job_is_submitted(cluster, tmp_path, monkeypatch):
    """The time to read grew faster than the length of a line, and a request of more than 200 kB was
    never sent completely.
    """
    program = "print('x' * (40 << 20)); print('y')"
    command = json.dumps([sys.executable, "-c", program])
    text = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata:\n  name: large\n"
        f"  annotations: {{note: {'n' * 900_000}}}\n"
        "spec:\n  tasks:\n  - name: main\n    template: {spec: {containers: "
        f"[{{name: c, command: {command}}}]}}}}\n"
    )
    file = tmp_path / "large.yaml"
    file.write_text(text)
    cluster.done("submit", str(file), "--wait")
    assert cluster.done("logs", "large") == "x" * (40 << 20) + "\ny\n"
    monkeypatch.setattr(visitor, "VISITORS_REQUEST_BYTES", 0)
    with pytest.raises(MessageTooLargeError, match="limit of a command's request"):
        cluster.jobs()

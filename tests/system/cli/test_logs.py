"""`phalanx logs` of jobs, daemons, workers and actors."""

from __future__ import annotations

import json

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import COMMAND

from phalanx.cli.process_output import MAX_TAIL
from phalanx.protocol.requests.cluster import GetStatus

PROGRAM = """
import os, sys
import phalanx

phalanx.init(namespace="logs")

@phalanx.remote
class Speaker:
    def say(self, text):
        print(text)
        print("softly", file=sys.stderr)
        return os.getpid()

@phalanx.remote
def crash():
    os._exit(7)

speaker = Speaker.options(name="speaker", lifetime="detached").remote()
for number in range(50):
    pid = phalanx.get(speaker.say.remote(f"line {number}"))
try:
    phalanx.get(crash.options(max_retries=0).remote())
except phalanx.exceptions.WorkerCrashedError:
    pass
print(pid)
"""


@pytest.fixture(scope="module")
def cluster(running):
    return running


@pytest.fixture(scope="module")
def pid(cluster):
    """Return the process id of the worker of an actor that has printed a hundred lines."""
    ended = cluster.python(PROGRAM)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()[-1]


def logs(cluster, *arguments):
    return cluster.done("logs", *arguments).splitlines()


def test_an_actor_by_name_and_its_worker_by_pid(cluster, pid):
    eventually(lambda: len(logs(cluster, "--actor", "speaker")) == 100)
    printed = logs(cluster, "--worker", pid)
    assert [one for one in printed if one != "softly"] == [f"line {n}" for n in range(50)]
    (row,) = json.loads(cluster.done("list", "workers", "--filter", f"pid={pid}", "--json"))["rows"]
    assert logs(cluster, "--worker", row["worker_id"][:24]) == printed


def test_the_last_lines_with_their_times(cluster, pid):
    eventually(lambda: len(logs(cluster, "--actor", "speaker")) == 100)
    assert len(logs(cluster, "--actor", "speaker", "--tail", "3")) == 3
    assert logs(cluster, "--actor", "speaker", "--since", "1d", "--tail", "0") == []
    (line,) = logs(cluster, "--actor", "speaker", "--tail", "1", "--timestamps")
    assert line[:2] == "20" and "Z " in line
    record = json.loads(logs(cluster, "--actor", "speaker", "--json")[0])
    assert {"time", "stream", "name", "text"} == set(record)


def test_a_node_says_which_worker_crashed(cluster, pid):
    (node,) = cluster.ask(GetStatus()).nodes
    records = [json.loads(one) for one in logs(cluster, "--node", node.node_id[:8], "--json")]
    (crash,) = [one for one in records if "exit code 7" in one["text"]]
    assert (crash["level"], crash["process"], crash["node"]) == ("warning", "node", node.node_id)
    assert crash["job"]
    assert logs(cluster, "--node", node.hostname, "--since", "2100-01-01") == []


def test_members_of_jobs_are_in_the_log_of_their_node(cluster):
    cluster.done("run", "-n", "short", "--", "true")
    (node,) = cluster.ask(GetStatus()).nodes
    records = [json.loads(one) for one in logs(cluster, "--node", node.node_id, "--json")]
    texts = [one["text"] for one in records if one.get("job") == "default/short"]
    assert texts == ["member worker-0 begins, start 1", "member worker-0 has ended: exit code 0"]


def test_the_head_has_a_log(cluster):
    assert cluster.phalanx("logs", "--head").returncode == 0


def test_the_last_lines_of_each_member(cluster):
    cluster.done(
        *("run", "-n", "talks", "--gang", "2", "--cpus", "0.5", "--"),
        *("sh", "-c", "for i in 1 2 3 4 5; do echo $RANK.$i; done; printf rest"),
    )
    assert sorted(logs(cluster, "talks", "--tail", "2")) == [
        *("worker-0 | 0.5", "worker-0 | rest", "worker-1 | 1.5", "worker-1 | rest")
    ]
    assert logs(cluster, "talks.worker-1", "--tail", "99")[0] == "worker-1 | 1.1"
    (line,) = logs(cluster, "talks.worker-1", "--tail", "1", "--json")
    assert json.loads(line) == {"member": "worker-1", "text": "rest"}


def test_what_does_not_exist_and_what_is_not_clear(cluster, pid):
    for arguments, code in (
        (("--node", "nowhere"), 3),
        (("--worker", "fefe"), 3),
        (("--actor", "nobody"), 3),
        ((), 2),
        (("talks", "--head"), 2),
        (("talks", "--since", "1h"), 2),
        (("--head", "--since", "soon"), 2),
        (("--head", "--previous"), 2),
        (("--head", "--tail", str(MAX_TAIL + 1)), 2),
    ):
        assert cluster.phalanx("logs", *arguments).returncode == code, arguments


def test_a_log_is_followed(cluster, pid):
    with cluster.begin(COMMAND, "logs", "--actor", "speaker", "--tail", "1", "-f") as process:
        assert process.stdout.readline().strip()
        cluster.python(
            "import phalanx; phalanx.init(namespace='logs')\n"
            "phalanx.get(phalanx.get_actor('speaker').say.remote('one more'))"
        )
        assert process.stdout.readline().strip() in ("one more", "softly")
        process.kill()
        process.communicate()


def test_a_program_alone_has_logs_too(cluster):
    program = PROGRAM.replace("phalanx.init(", "phalanx.init('local', ")
    program = program.replace("print(pid)", "print(pid, flush=True); import signal; signal.pause()")
    with cluster.begin(program) as process:
        assert next(line for line in process.stdout if line.strip().isdecimal())
        texts = cluster.done("logs", "--head", "--address", f"pid:{process.pid}")
        process.kill()
        process.communicate()
    assert "exit code 7" in texts

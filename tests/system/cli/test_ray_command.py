"""The command `ray` as a user of Ray runs it, on a cluster that it starts itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import PATIENCE_S, Machine

RAY = "from phalanx.adapters.ray.command.main import main; main()"
DRIVER = """
import os, ray
import steps

ray.init()

@ray.remote
def where():
    import steps
    return os.environ["MODE"], steps.DOUBLE

@ray.remote(name="counter", lifetime="detached", num_cpus=0)
class Counter:
    def add(self):
        return 1

config = ray._private.worker.global_worker.core_worker.get_job_config()
print(config.metadata)
print(os.environ["MODE"], os.path.exists("notes.log"))
print(ray.get(where.remote()))
print(ray.get(Counter.options(name="counter", lifetime="detached").remote().add.remote()))
"""

SPEAKER = """
import phalanx as ray

ray.init(namespace="logs")

@ray.remote(num_cpus=0)
class Speaker:
    def say(self, text):
        print(text)

speaker = Speaker.options(name="speaker", lifetime="detached").remote()
ray.get(speaker.say.remote("loud and clear"))
"""


def ray(machine: Machine, *arguments: str, **env: str) -> str:
    """Return the output of a command that must succeed."""
    ended = machine.python(RAY, *arguments, **env)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def started():
    """Yield a machine with a cluster that `ray start` has started, and its job server."""
    machine = Machine()
    try:
        ports = ("--port", "0", "--dashboard-port", "0")
        amounts = ("--num-cpus", "2", "--object-store-memory", "80000000")
        said = ray(machine, "start", "--head", *ports, *amounts, "--disable-usage-stats")
        assert "ray job submit --address http://127.0.0.1:" in said
        yield machine
    finally:
        machine.python(RAY, "stop", "--force")
        machine.end()


def test_a_script_with_its_directory_and_variables(started, tmp_path):
    (tmp_path / "main.py").write_text(DRIVER)
    (tmp_path / "steps.py").write_text("DOUBLE = 2\n")
    (tmp_path / "notes.log").write_text("")
    environment = {"env_vars": {"MODE": "test"}, "excludes": ["*.log"]}
    said = ray(
        started,
        *("job", "submit", "--working-dir", str(tmp_path), "--submission-id", "whole"),
        *("--runtime-env-json", json.dumps(environment), "--metadata-json", '{"team": "a"}'),
        *("--", "python", "main.py"),
    )
    assert "Job 'whole' submitted successfully" in said
    named = {"job_name": "whole", "job_submission_id": "whole", "team": "a"}
    assert f"{named}\n" in said
    assert "test False\n('test', 2)\n1\n" in said
    assert "Job 'whole' succeeded" in said
    assert "('test', 2)" in ray(started, "job", "logs", "whole")
    assert "Job 'whole' succeeded" in ray(started, "job", "status", "whole")
    listed = ray(started, "job", "list")
    assert "submission_id='whole'" in listed
    assert "'team': 'a'" in listed
    actors = json.loads(ray(started, "list", "actors", "--format", "json"))
    assert [row["class_name"] for row in actors] == ["Counter"]
    (job,) = json.loads(
        ray(started, "list", "jobs", "--format", "json", "--filter", "submission_id=whole")
    )
    assert job["status"] == "SUCCEEDED"
    assert "deleted successfully" in ray(started, "job", "delete", "whole")
    gone = started.python(RAY, "job", "status", "whole")
    assert (gone.returncode, "whole does not exist" in gone.stderr) == (1, True)


WORDS = [
    "*",
    "$((1+1))",
    "$(echo no)",
    "`echo no`",
    "$HOME",
    "it's",
    'a "b"',
    "\\",
    "",
    "a  b",
    "~",
]


def test_the_words_of_a_command_reach_it_as_they_were_given(started):
    """In an earlier version a shell interpreted the words: $((1+1)) became 2, and * the names of
    files.
    """
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    printed = ray(started, "job", "submit", "--", sys.executable, "-c", code, *WORDS)
    assert json.dumps(WORDS) in printed.splitlines()


def test_a_job_that_fails_and_one_that_is_stopped(started):
    failed = started.python(RAY, "job", "submit", "--", "sh", "-c", "echo why; exit 3")
    assert failed.returncode == 1
    assert "Job entrypoint command failed with exit code 3" in failed.stdout
    assert "why" in failed.stdout
    long = ("--submission-id", "long", "--no-wait", "--", "sleep", "1000")
    ray(started, "job", "submit", *long)
    eventually(lambda: started.jobs()["long"]["state"] == "Running")
    assert "Job 'long' was stopped" in ray(started, "job", "stop", "long")


def test_the_cluster_is_shown_by_ray_s_commands(started):
    (node,) = json.loads(ray(started, "list", "nodes", "--format", "json"))
    status = ray(started, "status")
    assert f" 1 node_{node['node_id']}\n" in status
    assert "/2.0 CPU\n" in status
    assert (node["state"], node["resources_total"]["CPU"]) == ("ALIVE", 2)
    # Those of gangs, and so of jobs, are among them.
    groups = ray(started, "list", "placement-groups", "--filter", "state=CREATED")
    assert "PLACEMENT_GROUP_ID" in groups
    assert started.phalanx("queue", "create", "night").returncode == 0
    events = json.loads(ray(started, "list", "cluster-events", "--format", "json"))
    kinds = {row["message"].partition(":")[0] for row in events}
    assert "queue-made" in kinds
    assert "head-began" not in kinds  # of that Ray has no event
    tasks = json.loads(ray(started, "list", "tasks", "--format", "json"))
    assert {row["state"] for row in tasks} <= {"FINISHED"}  # of jobs that other tests have run
    (store,) = ray(started, "memory").splitlines()[1:2]
    assert node["node_id"].startswith(store.split()[0])
    first, *_ = ray(started, "summary", "tasks").splitlines()
    assert re.fullmatch(r"\d+ tasks?, \d+ actor tasks?, \d+ actors? scheduled", first)
    shown = ray(started, "get", "nodes", node["node_id"])
    assert f"node_id: {node['node_id']}" in shown
    assert shown.startswith("---\n")
    assert shown.endswith("...\n")
    assert ray(started, "get", "nodes", "00") == "Resource with id=00 not found in the cluster.\n"


def test_a_server_ends_with_its_port_free_and_another_takes_over(started):
    began = started.python(
        "import sys\n"
        "from phalanx.adapters.ray.jobs import files\n"
        "from phalanx.adapters.ray.jobs.process import start_server, stop_servers\n"
        "from phalanx.runtime.os.serving import servers\n"
        "(first,) = servers(files.directory())\n"
        "port = int(first.url.rpartition(':')[2])\n"
        "stop_servers()\n"
        "assert servers(files.directory()) == []\n"
        "print(start_server(first.cluster, port=port).url == first.url)\n"
    )
    assert began.stdout == "True\n", began.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("start", "--head", "--no-such-option"), "has no option --no-such-option"),
        (("list", "runtime-envs"), "Give one of actors, cluster-events, jobs, nodes"),
        (("list", "nodes", "--filter", "x"), "COLUMN=VALUE"),
        (("job", "submit", "--metadata-json", "[]", "--", "x"), "takes a JSON object"),
        (("stop", "--nothing"), "has no option --nothing"),
    ],
)
def test_what_is_wrong_is_said(started, arguments, text):
    ended = started.python(RAY, *arguments)
    assert ended.returncode == 2
    assert text in ended.stderr


def test_what_has_no_effect_is_said_once(started):
    ended = started.python(RAY, "status", "--temp-dir", "/tmp/x", "--log-style=record", "-v")
    assert ended.returncode == 0
    assert (
        ended.stderr == "warning: these options have no effect here: --temp-dir, --log-style, -v\n"
    )


def test_the_command_is_installed_and_writes_over_no_other(machine, tmp_path):
    directory = tmp_path / "bin"
    machine.done("compat", "ray", "install", str(directory))
    version = subprocess.run(
        [str(directory / "ray"), "--version"],
        capture_output=True,
        text=True,
        env=machine.env,
        timeout=PATIENCE_S,
        check=True,
    )
    assert version.stdout.startswith("ray, version 2.")
    assert (directory / "ray").read_text().startswith(f"#!{sys.executable}\n")
    (directory / "ray").write_text("#!/bin/sh\n")
    refused = machine.phalanx("compat", "ray", "install", str(directory))
    assert (refused.returncode, "not Phalanx's" in refused.stderr) == (2, True)
    machine.done("compat", "ray", "install", str(directory), "--force")
    assert os.access(directory / "ray", os.X_OK)


def test_logs_are_listed_and_printed(started):
    (actor,) = json.loads(speaking(started))
    listed = ray(started, "logs")
    assert "- gcs_server.out" in listed and "- raylet.out" in listed
    assert "worker_out:" in ray(started, "logs", "cluster", "worker*")
    ray(started, "logs", "raylet.out")
    of_actor = ("logs", "actor", "--id", actor["actor_id"], "--tail", "-1")
    eventually(lambda: ray(started, *of_actor).endswith("loud and clear\n"))
    for wrong, what in (
        (("logs", "no*"), "No log of node"),
        (("logs", "actor"), "Give --pid or --id"),
        (("logs", "worker", "--pid", "1"), "Worker with pid 1 not found"),
        (("logs", "task", "--id", "no"), "Could not find task: no"),
    ):
        ended = started.python(RAY, *wrong)
        assert ended.returncode != 0 and what in ended.stderr


def speaking(machine: Machine) -> str:
    """Start an actor that prints something; return its row as `ray list actors` prints it."""
    ended = machine.python(SPEAKER)
    assert ended.returncode == 0, ended.stderr
    return ray(machine, "list", "actors", "--filter", "name=speaker", "--format", "json")

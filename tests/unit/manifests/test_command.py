"""`phalanx validate`: what it prints, and its exit codes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from phalanx.cli.typer_app import app

GOOD = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\n"
GOOD += "spec: {queue: q, tasks: [{name: t, replicas: 2, template: {spec: {containers: "
GOOD += "[{command: [x]}]}}}]}\n"
BAD = GOOD.replace("replicas: 2", "replicas: -2")
QUEUES = "- {name: q, state: Open}\n- {name: shut, state: Closed}\n"


@pytest.fixture
def run(tmp_path):
    def run(text, *arguments, files=(), given=None):
        (tmp_path / "f.yaml").write_text(text)
        for name, content in dict(files).items():
            (tmp_path / name).write_text(content)
        words = [str(tmp_path / a) if a in dict(files) else a for a in arguments]
        file = "-" if given is not None else str(tmp_path / "f.yaml")
        return CliRunner().invoke(app, ["validate", file, *words], input=given)

    return run


def test_what_is_right(run) -> None:
    done = run(GOOD)
    assert (done.exit_code, done.stdout.rsplit(": ", 2)[1:]) == (0, ["Job/j", "valid\n"])
    assert json.loads(run(GOOD, "--json").stdout) == {"ok": True, "errors": [], "warnings": []}


def test_a_job_that_submit_refuses_is_not_valid(run) -> None:
    done = run(GOOD.replace("command: [x]", "image: busybox"))
    assert done.exit_code == 1
    assert "runs nothing" in done.stderr or "without a command" in done.stderr
    assert "nothing would run" not in done.stderr  # it is said once
    assert "valid" not in done.stdout
    large = run(GOOD.replace("command: [x]", "command: [x], resources: {requests: {cpu: 1e30}}"))
    assert large.exit_code == 1


def test_what_is_wrong(run) -> None:
    done = run(BAD, "--json")
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert answer["ok"] is False
    first = answer["errors"][0]
    assert (first["path"], first["code"], first["line"]) == (
        "spec.tasks[0].replicas",
        "replicas_negative",
        4,
    )
    assert first["reason"] == "replicas must be 0 or more, not -2"
    done = run(BAD)
    assert done.stdout == ""
    assert "f.yaml:4: Job/j spec.tasks[0].replicas: replicas must be 0 or more" in done.stderr


@pytest.mark.parametrize(
    "queues", [QUEUES, "queues:\n" + QUEUES, "[]", GOOD.replace("Job", "Queue")]
)
def test_queues(run, queues) -> None:
    done = run(GOOD, "--queues", "q.yaml", "--json", files={"q.yaml": queues})
    codes = [e["code"] for e in json.loads(done.stdout)["errors"]]
    assert codes == ([] if "name: q" in queues else ["queue_not_found"])


def test_an_update_and_a_deletion(run) -> None:
    more = GOOD.replace("replicas: 2", "replicas: 3")
    assert run(more, "--old", "old.yaml", files={"old.yaml": GOOD}).exit_code == 0
    other = GOOD.replace("queue: q", "queue: z")
    done = run(other, "--old", "old.yaml", "--json", files={"old.yaml": GOOD})
    assert [e["code"] for e in json.loads(done.stdout)["errors"]] == ["update_forbidden_field"]
    queue = "kind: Queue\nmetadata: {name: default}\nspec: {}\n"
    done = run(queue, "--queues", "q.yaml", "--operation", "delete", files={"q.yaml": QUEUES})
    assert done.exit_code == 1


def test_what_cannot_be_read(run) -> None:
    assert run(GOOD, "--queues", "/nowhere").exit_code == 2
    assert run(GOOD, "--queues", "q.yaml", files={"q.yaml": "a: &x 1\nb: *x"}).exit_code == 2
    assert CliRunner().invoke(app, ["validate", "/nowhere"]).exit_code == 2
    assert run("a: [1").exit_code == 1


def test_from_the_input(run) -> None:
    assert run("", given=GOOD).exit_code == 0


def test_a_hostile_name_does_not_reach_the_terminal(run) -> None:
    done = run(GOOD.replace("name: j", 'name: "\\e[31m\\x07"'))
    assert done.exit_code == 1
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr

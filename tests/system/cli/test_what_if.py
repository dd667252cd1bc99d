"""`phalanx what-if`: of snapshot files, and of a cluster."""

from __future__ import annotations

import json

import pytest
from tests.system.cli.test_plan import SNAPSHOT
from typer.testing import CliRunner

from phalanx.cli.typer_app import app

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME}
spec:
  queue: QUEUE
  minAvailable: 2
  tasks:
  - name: w
    replicas: 2
    template:
      spec:
        containers:
        - {name: c, command: [sleep, "5"], resources: {requests: {nvidia.com/gpu: 8}}}
"""


@pytest.fixture
def ask(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(SNAPSHOT)

    def run(*arguments):
        return CliRunner().invoke(app, ["what-if", "--snapshot", str(file), *arguments])

    return run


@pytest.fixture
def manifest(tmp_path):
    def write(name="mine", queue="q"):
        file = tmp_path / "job.yaml"
        file.write_text(JOB.replace("NAME", name).replace("QUEUE", queue))
        return str(file)

    return write


def rows(shown):
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()[1:]
    return [line.split() for line in lines if line and not line.startswith((" ", "Would"))]


def test_more_nodes(ask):
    assert rows(ask("--add-nodes", "1:CPU=64,GPU=8")) == [
        ["big", "q", "in", "1m30s", "in", "10s", "1m20s", "earlier"],
        ["long", "q", "in", "2m", "in", "40s", "1m20s", "earlier"],
        ["never", "q", "-", "in", "40s", "starts", "at", "all"],
        ["small", "q", "now", "in", "40s", "40s", "later"],
    ]


def test_a_node_less(ask):
    shown = ask("--remove-node", "a")
    assert ["r", "q", "runs", "in", "1m30s", "stopped"] in rows(shown)
    assert ["big", "q", "in", "1m30s", "-", "does", "not", "start"] in rows(shown)
    assert shown.stdout.splitlines()[-1].endswith("wait again: r")


SCATTERED = """\
now: 10000
config: {actions: [allocate], tiers: [{plugins: [{name: gang}, {name: predicates}]}]}
nodes:
- {name: a, capacity: {cpu: 4, pods: 9}}
- {name: b, capacity: {cpu: 4, pods: 9}}
queues: [{name: q}]
podgroups:
- {name: s, queue: q, minMember: 1, phase: Running, started: 0, run_time_s: 90000,
   annotations: {phalanx/movable: 5m, phalanx/restart-time: 20s}}
- {name: z, queue: q, minMember: 1, phase: Inqueue, run_time_s: 60}
tasks:
- {name: s-0, podgroup: s, request: {cpu: 1}, node: a, phase: Running}
- {name: other, podgroup: others, request: {cpu: 1}, node: b, phase: Running}
- {name: z-0, podgroup: z, request: {cpu: 4}}
"""


def test_moves(tmp_path):
    file = tmp_path / "scattered.yaml"
    file.write_text(SCATTERED)
    shown = CliRunner().invoke(app, ["what-if", "--snapshot", str(file), "--consolidate"])
    assert rows(shown) == [["z", "q", "in", "22h15m", "now", "22h15m", "earlier"]]
    assert shown.stdout.splitlines()[-1] == (
        "Would be moved (5m of work lost, 20s of restarts): s. z starts at once."
    )


def test_a_job_more_as_data(ask, manifest):
    shown = ask("--submit", manifest(), "--json")
    found = {one["podgroup"]: one for one in json.loads(shown.stdout)["starts"]}
    assert found["default/mine"]["is_new"]
    assert found["default/mine"]["before_s"] is None
    assert found["default/big"]["before_s"] == found["default/big"]["after_s"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "No change to compare: give --add-nodes"),
        (["--add-nodes", "x"], "nodes to add 'x': COUNT:NODE (like that node)"),
        (["--add-nodes", "1:CPU=-3"], "'CPU=-3' is not NAME=AMOUNT with an amount of at least 0"),
        (["--add-nodes", "1:CPU=many"], "an amount must be a number like 2"),
        (["--add-nodes", "99999:a"], "1 to 10,000 nodes can be added, not 99,999"),
        (["--weight", "q=much"], "expected QUEUE=N"),
        (["--weight", "z=1"], "there is no queue 'z'"),
        (["--remove-node", "z"], "there is no node 'z'; known: a, b"),
        (["--submit", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_is_refused(ask, arguments, complaint):
    shown = ask(*arguments)
    assert shown.exit_code == 2
    assert complaint in shown.output


def test_a_job_that_could_not_be_submitted_is_refused(ask, manifest):
    assert (
        "names the queue 'z', which does not exist" in ask("--submit", manifest(queue="z")).output
    )
    assert "job default/big exists already" in ask("--submit", manifest("big")).output

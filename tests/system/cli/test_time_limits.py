"""Commands about time: limits, deadlines, holding, and a head that is killed in between."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any

import pytest
from tests.polling import eventually

SPIN = "while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def lab(running):
    running.done("queue", "create", "lab", "--default-time", "1h", "--max-time", "1-12:00")
    return running


def test_run_ends_as_timeout_does(lab):
    ended = lab.phalanx("run", "-n", "long", "--time", "0:1", "--grace", "0", "--", "sleep", "1000")
    assert ended.returncode == 124
    row = lab.jobs()["long"]
    assert (row["state"], row["time_limit_s"]) == ("TimeOut", 1)
    listed = lab.done("jobs", "--state", "timeout")
    assert re.search(r"long +default +TimeOut +1s .* its limit \(time\)", listed)
    assert re.search(r"ran \d+s of 1s", lab.done("job", "long"))


def test_a_queue_shows_its_times_and_they_hold(lab):
    assert re.search(r"lab .* 1h +1d12h", lab.done("queue", "get", "lab"))
    (row,) = (
        one for one in json.loads(lab.done("queue", "list", "--json")) if one["name"] == "lab"
    )
    assert (row["default_time_s"], row["max_time_s"]) == (3600, 129_600)
    lab.done("run", "-d", "-n", "asked", "-q", "lab", "--hold", "--", "true")
    assert lab.jobs()["asked"]["time_limit_s"] == 3600
    refused = lab.phalanx("run", "-q", "lab", "--time", "2-0", "--", "true")
    assert refused.returncode == 1
    assert "time=2d: queue lab allows at most 1d12h (maxTime)" in refused.stderr
    wrong = lab.phalanx("queue", "update", "lab", "--max-time", "30m")
    assert (wrong.returncode, "above maxTime" in wrong.stderr) == (1, True)
    wrong = lab.phalanx("queue", "update", "lab", "--max-time", "soon")
    assert wrong.returncode == 2
    assert "--max-time: a length of time is like 2h30m" in wrong.stderr


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--time", "soon"), 2, "--time 'soon': a length of time is like 2h30m"),
        (("--begin", "soon"), 2, "--begin 'soon': a moment is like now+1h"),
        (("--deadline", "now+1h", "--time", "2h"), 1, "it cannot end by then"),
        (("--signal", "KILL@3"), 2, "of HUP, INT, QUIT, USR1"),
        (("--requeue", "night"), 2, "'night' is not one of timeout, preempted, node"),
        (("--requeue", "75", "--no-requeue"), 2, "cannot be combined"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_allowed(lab, options, code, said):
    refused = lab.phalanx("run", *options, "--", "true")
    assert (refused.returncode, refused.stdout) == (code, "")
    assert said in refused.stderr


def test_a_job_is_held_changed_and_released(lab):
    lab.done("run", "-d", "-n", "later", "--hold", "--", "true")
    assert "it is held" in lab.done("jobs")
    said = lab.done("explain", "later")
    assert "job default/later of queue default waits" in said
    assert "to change that: phalanx release later" in said
    changed = lab.done("update", "later", "--queue", "lab", "--priority", "7", "--json")
    row = json.loads(changed)
    assert (row["queue"], row["priority"], row["time_limit_s"]) == ("lab", 7, 3600)
    assert lab.phalanx("update", "later").returncode == 2
    assert lab.phalanx("update", "nobody", "--priority", "1").returncode == 3
    assert "job later is released" in lab.done("release", "later")
    eventually(lambda: lab.jobs()["later"]["state"] == "Completed")
    refused = lab.phalanx("hold", "later")
    assert refused.returncode == 1
    assert "only a waiting job can be held" in refused.stderr


def test_manifests_say_the_same(lab, tmp_path):
    container = {"name": "c", "command": ["true"]}
    manifest: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "written"},
        "spec": {
            "tasks": [{"name": "t", "template": {"spec": {"containers": [container]}}}],
            "time": "1-12:00",
            "begin": "now+1h",
            "deadline": "2099-01-01T00:00Z",
            "signal": "B:USR1@300",
            "requeue": {"reasons": ["timeout"], "exitCodes": [75], "max": 1},
            "hold": True,
        },
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(manifest))
    assert "warning" not in lab.phalanx("submit", str(path)).stderr
    row = lab.jobs()["written"]
    assert (row["time_limit_s"], row["is_held"]) == (129_600, True)
    assert row["begins"] == pytest.approx(row["submitted"] + 3600)
    assert row["deadline"] == 4_070_908_800
    manifest["spec"] |= {"time": "2x", "begin": "18:00", "requeue": {"max": -1}}
    path.write_text(json.dumps(manifest))
    found = json.loads(lab.phalanx("validate", "--json", str(path)).stdout)
    assert {(one["path"], one["code"]) for one in found["errors"]} == {
        ("spec.time", "time_invalid"),
        ("spec.begin", "begin_invalid"),
        ("spec.requeue.max", "requeue_invalid"),
    }


def test_a_head_that_is_killed_knows_what_ran_and_what_waits(machine, tmp_path):
    address = machine.start_head()
    begun = tmp_path / "begun"
    program = f"touch {begun}; {SPIN}"
    machine.done("run", "-d", "-n", "runs", "--time", "3s", "--", "sh", "-c", program)
    machine.done("run", "-d", "-n", "held", "--hold", "--deadline", "now+1h", "--", "true")
    eventually(begun.exists)
    before = machine.jobs()
    os.killpg(machine.daemons()["head"].pid, signal.SIGKILL)
    machine.done("start", "--head", "--port", address.rpartition(":")[2])
    eventually(lambda: machine.jobs()["runs"]["state"] == "TimeOut")
    after = machine.jobs()
    assert after["runs"]["ran_s"] >= 3
    kept = ("state", "submitted", "deadline", "is_held", "reason")
    assert [after["held"][key] for key in kept] == [before["held"][key] for key in kept]
    machine.done("release", "held")
    eventually(lambda: machine.jobs()["held"]["state"] == "Completed")

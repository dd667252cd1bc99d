"""Events of the cluster, from the command line and from Python."""

from __future__ import annotations

import json
from typing import Any

from tests.polling import eventually

EVIL = "a \x1b[31mfan"


def rows(machine: Any, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in machine.done("events", "--json", *words).splitlines()]


def test_a_job_is_told_with_who_and_why(running: Any) -> None:
    running.done("run", "-n", "told", "--", "true")
    eventually(lambda: [one["kind"] for one in rows(running, "--job", "told")][-1] == "ended")
    found = rows(running, "--job", "told")
    assert [one["kind"] for one in found] == ["submitted", "placed", "began", "ended"]
    assert {one["format"] for one in found} == {"phalanx-event/1"}
    assert found[0]["user"] == found[0]["by"] != ""
    node = found[1]["places"][0][0]
    running.done("drain", node, "--reason", EVIL)
    running.done("undrain", node)
    said = running.done("events", "--kind", "node", "--node", node)
    assert "node-drained" in said and f"by {found[0]['user']}" in said
    assert "\x1b" not in said and "\\x1b[31mfan" in said
    assert "placed  1 member on" in running.done("job", "told")
    assert [one["kind"] for one in rows(running, "--limit", "1", "--job", "told")] == ["ended"]
    assert "preempted" in running.done("events", "--kinds")
    wrong = running.phalanx("events", "--kind", "preemptd")
    assert wrong.returncode == 2 and "did you mean 'preempted'" in wrong.stderr
    assert "7d (7 days ago)" in running.phalanx("events", "--since", "x").stderr
    assert running.done("events", "--job", "no such").strip() == ("No such event happened lately.")


def test_how_well_the_head_is_and_what_it_decided(running: Any) -> None:
    running.done("run", "-n", "decided", "--", "true")
    eventually(lambda: rows(running, "--job", "decided"))
    found = json.loads(running.done("health", "--json"))
    assert found["format"] == "phalanx-health/1"
    said = {one["what"]: one["said"] for one in found["findings"]}
    assert "wait to be written" in said["store"] and "allocate" in said["rules"]
    assert "REQUEST" in running.done("health")
    listed = json.loads(running.done("scheduler", "cycles", "--json"))
    assert listed["format"] == "phalanx-cycles/1" and listed["cycles"]
    assert "allocate" in running.done("scheduler", "cycles")
    number = next(one["number"] for one in listed["cycles"] if one["counts"]["placed"])
    assert "placed" in running.done("scheduler", "cycle", str(number))
    wrong = running.phalanx("scheduler", "cycle", "999999")
    assert wrong.returncode == 3 and "known cycles" in wrong.stderr

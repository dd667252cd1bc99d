"""Commands for reservations, for draining at a given time and for licenses, and a head that is
killed.
"""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any

import pytest
from tests.polling import eventually


def kept(machine: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(machine.done("reservations", "--json"))}


def test_a_reservation_is_made_changed_listed_and_deleted(running):
    said = running.done(
        "reserve", "course", "--start", "now+1d", "--for", "2h", "-N", "1", "-u", "a"
    )
    assert re.search(r"reservation course is made: \S+, .* UTC to .* UTC", said)
    running.done("reserve", "course", "--for", "3h", "-q", "default", "--change")
    row = kept(running)["course"]
    assert (row["end"] - row["begin"], row["users"], row["queues"]) == (10_800, ["a"], ["default"])
    assert re.search(r"course +planned +once .* a, queue default", running.done("reservations"))
    refused = running.phalanx("reserve", "other", "--start", "now+25h", "--for", "1h", "-N", "1")
    assert refused.returncode == 1
    assert "is kept by reservation course at that time" in refused.stderr
    running.done("run", "-d", "-n", "waits", "--", "true")
    assert "reserved for course from" in running.done("explain", "waits")
    running.done("unreserve", "course")
    assert kept(running) == {}
    eventually(lambda: running.jobs()["waits"]["state"] == "Completed")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("reserve", "r", "--start", "soon", "-N", "1"), 2, "--start: a moment is like"),
        (
            ("reserve", "r", "--for", "0h", "-N", "1"),
            2,
            "--for: a length of time must be more than 0",
        ),
        (("reserve", "r"), 1, "say what to keep"),
        (("reserve", "r", "-N", "9"), 1, "nodeCount=9: the cluster has 1 such nodes"),
        (("reserve", "r", "--label", "x", "--for", "1h"), 2, "--label takes KEY=VALUE"),
        (("reserve", "r", "--every", "61 * * * *", "--for", "1h", "-N", "1"), 1, "'61' is not"),
        (("reserve", "r", "--change"), 2, "Nothing to change"),
        (("unreserve", "r"), 1, "there is no reservation 'r'"),
        (("run", "--reservation", "r", "--", "true"), 1, "no reservation has this name"),
        (("run", "-L", "matlab:x", "--", "true"), 2, "a count of matlab must be a whole number"),
        (("run", "-L", "matlab", "--", "true"), 1, "the cluster has no such licenses"),
        (("set-license", "a b", "1"), 1, "is not a valid name of a license"),
        (
            ("drain", "x", "--at", "now", "--for", "1h"),
            3,
            "No living node has the name",
        ),
    ],
)
def test_what_cannot_be_is_refused(running, arguments, code, said):
    ended = running.phalanx(*arguments)
    assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr


def test_a_node_drains_at_a_time_and_is_undrained(running):
    (node,) = [row["node_id"] for row in running.status()["nodes"]]
    assert "until it is undrained" in running.done("drain", node, "--at", "now+1d")
    assert [row["is_maintenance"] for row in kept(running).values()] == [True]
    assert "until 20" in running.done("drain", node, "--at", "now", "--for", "1h")
    eventually(lambda: running.status()["nodes"][0]["state"] == "DRAINING")
    assert "takes work again" in running.done("undrain", node)
    assert running.status()["nodes"][0]["state"] == "ALIVE"
    assert kept(running) == {}
    assert "does not drain" in running.done("undrain", node)


def test_licenses_are_counted(running):
    assert "licenses of matlab: 2" in running.done("set-license", "matlab", "2")
    running.done("run", "-d", "-n", "holds", "-L", "matlab:2", "--", "sleep", "1000")
    eventually(lambda: running.jobs()["holds"]["state"] == "Running")
    running.done("run", "-d", "-n", "asks", "--cpus", "0", "-L", "matlab", "--", "true")
    assert "2 of 2 licenses of matlab are held by job holds" in running.done("explain", "asks")
    assert re.search(r"matlab +2 +2 +1 +holds:2", running.done("licenses"))
    running.done("cancel", "holds")
    eventually(lambda: running.jobs()["asks"]["state"] == "Completed")
    running.done("set-license", "matlab", "0")
    assert "There are no licenses" in running.done("licenses")


def test_a_guest_ends_with_its_reservation_though_the_head_is_killed(machine):
    machine.start_head()
    port = machine.status()["address"].rpartition(":")[2]
    machine.done("reserve", "now", "--for", "1h", "-N", "1")
    machine.done("run", "-d", "-n", "guest", "--reservation", "now", "--", "sleep", "1000")
    eventually(lambda: machine.jobs()["guest"]["state"] == "Running")
    os.kill(machine.daemons()["head"].pid, signal.SIGKILL)
    eventually(lambda: "head" not in machine.daemons())
    machine.done("start", "--head", "--port", port)
    eventually(lambda: machine.jobs()["guest"]["state"] == "Running")
    row = kept(machine)["now"]
    assert (row["state"], row["running"]) == ("active", ["guest"])
    machine.done("reserve", "now", "--end", "now", "--change")
    eventually(lambda: machine.jobs()["guest"]["state"] == "TimeOut")
    assert "its reservation now ended at" in machine.done("job", "guest")

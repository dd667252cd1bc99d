"""A short day of a lab on four nodes of real processes, whose head is killed twice in the middle:
nothing that anybody was promised is lost, and nothing happens twice."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from tests.polling import eventually
from tests.system.cli.conftest import Machine

import phalanx
from phalanx.api.new_manifests import job_manifest, new_request
from phalanx.model.reservations import Reservation
from phalanx.observe.accounting.questions import AttemptQuery, UsageQuery
from phalanx.protocol.requests.accounting import GetUsage, ListAttempts
from phalanx.protocol.requests.cluster import DrainNode, UndrainNode
from phalanx.protocol.requests.jobs import CommandJob, GetJob, ListElements
from phalanx.protocol.requests.reservations import (
    ListLicenses,
    ListReservations,
    Reserve,
    SetLicense,
)

ENDED = {"Completed", "Failed", "Terminated", "TimeOut", "Deadline", "DependencyFailed"}
DAY = {
    "gang": ("Completed", ["Completed"] * 4),
    "sweep": ("Failed", []),
    "judge": ("Failed", []),
    "prep": ("Completed", ["Completed"]),
    "train": ("Completed", ["Completed"]),
    "alarm": ("DependencyFailed", []),
    "report": ("Completed", ["Completed"]),
    "fails": ("Failed", ["Failed"]),
    "never": ("DependencyFailed", []),
    "mend": ("Completed", ["Completed"]),
    "backup-1": ("Completed", ["Completed"]),
    "backup-2": ("Completed", ["Completed"]),
    "guest": ("Completed", ["Completed"]),
    "pupil": ("TimeOut", ["TimeOut"]),
    "spare": ("Completed", ["Preempted", "Completed"]),
    "urgent": ("Completed", ["Completed"]),
    "licensed-1": ("Completed", ["Completed"]),
    "licensed-2": ("Completed", ["Completed"]),
    "waits": ("Completed", ["Completed"]),
    "wrong": ("Terminated", ["Terminated"]),
}
"""The state in which each job must end, and those in which its attempts must end."""
SWEEP = {
    0: ("Completed", ["Completed"]),
    1: ("Completed", ["Failed", "Completed"]),
    2: ("Completed", ["Completed"]),
    3: ("Completed", ["Completed"]),
    4: ("Failed", ["Failed", "Failed"]),
    5: ("Completed", ["Completed"]),
}
"""The same for each array task of `sweep`. An array task of `judge` starts if that of `sweep` with
the same index has completed.
"""


class Day:
    """The cluster, and observations of the programs that ran on it."""

    def __init__(self, machine: Machine, directory: Path) -> None:
        self.machine = machine
        self.directory = directory
        self._began = directory / "began"
        self._began.touch()
        self.users: dict[str, str] = {}

    def gate(self, name: str) -> str:
        """Return the code of a program that waits until the test opens the gate `name`."""
        return f"until test -e {self.directory}/{name}; do sleep 0.05; done"

    def open(self, *names: str) -> None:
        for name in names:
            (self.directory / name).touch()

    def submit(self, user: str, name: str, body: str, **options: Any) -> None:
        """Submit a job of this user, whose members record their start."""
        says = 'echo "$PHALANX_JOB $PHALANX_TASK-$PHALANX_TASK_INDEX $PHALANX_ATTEMPT"'
        command = f"{says} >> {self._began}; {body}"
        job = phalanx.Job(command, name=name, **{"num_cpus": 0.1, **options})
        spec = msgspec.structs.replace(job.spec(), user=user)
        self.machine.ask(new_request([job_manifest(spec)]))
        self.users[name] = user

    def began(self) -> list[tuple[str, ...]]:
        """Return (job, member, attempt) of all programs that have begun, in order."""
        return [tuple(line.split()) for line in self._began.read_text().splitlines()]

    def runs(self, *jobs: str) -> bool:
        """Whether programs of all these jobs have begun."""
        return set(jobs) <= {job for job, *_ in self.began()}

    def states(self) -> dict[str, str]:
        return {name: row["state"] for name, row in self.machine.jobs().items()}

    def restart_head(self, *while_gone: str) -> None:
        """Kill the head, open the named gates while there is no head, and start a head on the same
        store.
        """
        head = self.machine.daemons()["head"]
        os.kill(head.pid, signal.SIGKILL)
        eventually(lambda: "head" not in self.machine.daemons())
        self.open(*while_gone)
        self.machine.done("start", "--head", "--port", head.address.rpartition(":")[2])


def submit_all(day: Day) -> None:
    day.submit("ann", "gang", day.gate("gang"), members=4, num_cpus=0.5)
    tries = f"test $i != 1 || ! mkdir {day.directory}/tried || exit 4"
    fate = f"i=$PHALANX_ARRAY_INDEX; {tries}; test $i != 4 || exit 5; test $i -lt 2 || "
    day.submit("bob", "sweep", f"{fate}{day.gate('sweep')}", array="0-5%3", max_retries=1)
    day.submit("bob", "judge", "true", array="0-5", after="aftercorr:sweep")
    day.submit("cid", "prep", day.gate("prep"))
    day.submit("cid", "train", "true", after="afterok:prep")
    day.submit("cid", "alarm", "true", after="afternotok:prep")
    day.submit("cid", "report", "true", after="afterany:train")
    day.submit("cid", "fails", "exit 3")
    day.submit("cid", "never", "true", after="afterok:fails")
    day.submit("cid", "mend", "true", after="afternotok:fails")
    day.submit("dee", "backup-1", day.gate("backup"), after="singleton:backup")
    day.submit("dee", "backup-2", "true", after="singleton:backup")
    day.submit("dee", "guest", day.gate("guest"), reservation="course")
    day.submit("dee", "pupil", "exec sleep 1000", reservation="course")
    day.submit("eve", "licensed-1", day.gate("licensed"), licenses="matlab")
    day.submit("eve", "spare", day.gate("spare"), resources={"third": 1}, priority=-10)
    day.submit("ann", "wrong", "exec sleep 1000")


def test_a_day_on_four_nodes_whose_head_is_killed(machine, tmp_path):
    day = Day(machine, tmp_path)
    address = machine.start_head("--num-cpus", "4")
    for name in ("second", "third", "fourth"):
        machine.join(address, name, "--num-cpus", "4", "--resources", json.dumps({name: 1}))
    ids = {name: row["node_id"] for name, row in machine.nodes().items()}
    machine.ask(SetLicense("matlab", 1))
    course = Reservation(name="course", length_s=3600.0, nodes=(ids["fourth"],))
    machine.ask(Reserve(course))

    submit_all(day)
    eventually(lambda: day.runs("gang", "prep", "backup-1", "guest", "pupil", "spare", "wrong"))
    eventually(lambda: day.runs("licensed-1", "sweep[2]", "sweep[3]", "sweep[5]"))
    machine.ask(DrainNode(ids["second"], "a fan is loud"))
    day.submit("eve", "licensed-2", "true", licenses="matlab")
    day.submit("eve", "urgent", day.gate("urgent"), resources={"third": 1}, priority=100)
    day.submit("bob", "waits", "true", resources={"second": 1})
    eventually(lambda: day.runs("urgent", "mend"))

    day.restart_head("gang", "sweep", "prep")
    day.restart_head("licensed")
    expected = dict.fromkeys(("backup-1", "guest", "pupil", "urgent", "wrong"), "Running")
    expected |= dict.fromkeys(("backup-2", "spare", "waits"), "Pending")
    expected |= dict.fromkeys(("report", "licensed-2"), "Completed")
    eventually(lambda: expected.items() <= day.states().items(), "the state in the middle")
    nodes = machine.nodes()
    assert {name: row["node_id"] for name, row in nodes.items()} == ids, "no node was lost"
    assert [name for name, row in nodes.items() if row["state"] == "DRAINING"] == ["second"]
    (kept,) = machine.ask(ListReservations())
    assert (kept.state, sorted(kept.running)) == ("active", ["guest", "pupil"])
    eventually(lambda: [row.held for row in machine.ask(ListLicenses())] == [0])

    machine.ask(CommandJob("default/wrong", "cancel"))
    machine.ask(UndrainNode(ids["second"]))
    day.open("backup", "guest", "urgent", "spare")
    eventually(lambda: day.states()["guest"] == "Completed")
    machine.done("reserve", "course", "--end", "now", "--change")
    eventually(lambda: set(day.states().values()) <= ENDED, "the end of all jobs")
    check_ends(day, ids)
    check_history(day)


def elements(day: Day, array: str) -> list[tuple[str, str, int]]:
    rows = day.machine.ask(ListElements(f"default/{array}"))
    return [(row.name, row.state, row.starts) for row in rows]


def check_ends(day: Day, ids: dict[str, str]) -> None:
    assert day.states() == {name: state for name, (state, _) in DAY.items()}
    assert elements(day, "sweep") == [
        ("sweep[0]", "Completed", 1), ("sweep[1]", "Completed", 2), ("sweep[2-3]", "Completed", 1),
        ("sweep[4]", "Failed", 2), ("sweep[5]", "Completed", 1),
    ]  # fmt: skip
    assert elements(day, "judge") == [
        ("judge[0-3]", "Completed", 1), ("judge[4]", "DependencyFailed", 0),
        ("judge[5]", "Completed", 1),
    ]  # fmt: skip
    for name in DAY:
        for member in day.machine.ask(GetJob(f"default/{name}")).members:
            if member.node:
                assert (member.node == ids["fourth"]) == (name in ("guest", "pupil")), name
    order = [job for job, *_ in day.began() if job.startswith("backup")]
    assert order == ["backup-1", "backup-2"], "one after another"


def check_history(day: Day) -> None:
    expected = {name: attempts for name, (_, attempts) in DAY.items() if attempts}
    expected |= {f"sweep[{i}]": attempts for i, (_, attempts) in SWEEP.items()}
    expected |= {f"judge[{i}]": ["Completed"] for i in SWEEP if SWEEP[i][0] == "Completed"}
    count = sum(map(len, expected.values()))
    query = AttemptQuery(limit=1000)
    eventually(lambda: len(day.machine.ask(ListAttempts(query)).attempts) >= count, "all records")
    attempts = day.machine.ask(ListAttempts(query)).attempts
    ended: dict[str, list[str]] = {}
    for one in sorted(attempts, key=lambda one: (one.member, one.attempt)):
        ended.setdefault(one.job, []).append(one.state)
    assert ended == expected
    written = Counter((one.job, one.member, str(one.attempt)) for one in attempts)
    assert written == Counter(day.began()), "a record for each program that began, and no other"
    for one in attempts:
        assert one.user == day.users[one.job.partition("[")[0]], one
        assert one.submitted <= one.started <= one.ended, one
    rows = day.machine.ask(GetUsage(UsageQuery()))
    assert sum(row.sum.attempts for row in rows) == count
    assert {row.user for row in rows} == set(day.users.values())

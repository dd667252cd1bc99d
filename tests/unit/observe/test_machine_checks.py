"""Each rule of `phalanx doctor`, on a machine that meets it and on one that does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from phalanx.observe.health import BAD, LOOK, WELL
from phalanx.observe.machine_checks import DaemonFacts, MachineFacts, PathFacts, check_machine

GIB = 1 << 30


def private(path: str, **other: Any) -> PathFacts:
    return PathFacts(path=path, **{"mode": 0o700, "free_bytes": 10 * GIB, **other})


GOOD = MachineFacts(
    python=(3, 11),
    missing={"cluster": [], "dashboard": []},
    runtime=private("/run/user/1000/phalanx"),
    output=private("/var/tmp", mode=0o1777),
    store=private("/home/ann/.phalanx/store/box.db", mode=0o600),
    token=private("/home/ann/.phalanx/token", mode=0o600),
    shared_free_bytes=8 * GIB,
    open_files=(1024, 1_048_576),
    gpus=4,
    has_command_groups=True,
    hostname="box",
    host_addresses=["10.0.0.7"],
    port_is_free=True,
)

FAULTS = [
    ("Python", {"python": (3, 10)}, BAD, "3.10", "3.11"),
    ("extra cluster", {"missing": {"cluster": ["cryptography"]}}, LOOK, "cryptography", "phalanx["),
    ("session directory", {"runtime_fault": "/run is full"}, BAD, "/run is full", "XDG_RUNTIME"),
    ("session directory", {"runtime": private("/r", mode=0o755)}, BAD, "0755", "chmod 0700 /r"),
    ("session directory", {"runtime": private("/r", is_ours=False)}, BAD, "another user", "Remove"),
    ("session directory", {"runtime": private("/r", is_link=True)}, BAD, "symbolic", "Remove"),
    ("space for sessions", {"runtime": private("/r", free_bytes=5 << 20)}, LOOK, "5.0 MiB", "Free"),
    ("output of jobs", {"output": private("/t", is_in_memory=True)}, LOOK, "in memory", "TMPDIR"),
    ("output of jobs", {"output": private("/t", free_bytes=0)}, LOOK, "0 B free", "Free"),
    ("store", {"store": private("/s", mode=0o640)}, BAD, "0640", "chmod 0600 /s"),
    ("token", {"token": private("/t", mode=0o644)}, BAD, "0644", "chmod 0600 /t"),
    ("shared memory", {"shared_free_bytes": 64 << 20}, LOOK, "64.0 MiB", "--shm-size"),
    ("open files", {"open_files": (1024, 1024)}, LOOK, "1024", "4096"),
    ("GPUs", {"gpu_fault": "driver mismatch"}, BAD, "driver mismatch", "nvidia-smi"),
    ("control groups", {"has_command_groups": False}, LOOK, "watched", "Delegate"),
    ("host name", {"host_addresses": []}, LOOK, "does not resolve", "/etc/hosts"),
    ("host name", {"host_addresses": ["127.0.1.1"]}, LOOK, "is only 127.0.1.1", "--host"),
    ("daemons", {"port_is_free": False}, LOOK, "another program", "--port"),
    (
        "daemons",
        {"daemons": [DaemonFacts(kind="node", pid=7, address="a:1", is_alive=False)]},
        LOOK,
        "node 7",
        "phalanx logs",
    ),
]


def test_a_good_machine_has_nothing_to_cure() -> None:
    found = check_machine(GOOD)
    assert {one.state for one in found} == {WELL}
    assert not any(one.cure for one in found)


def test_files_that_do_not_exist_yet_are_well() -> None:
    nothing = PathFacts(path="/home/ann/.phalanx/token")
    (token,) = (
        one
        for one in check_machine(msgspec.structs.replace(GOOD, token=nothing))
        if one.what == "token"
    )
    assert (token.state, token.is_security) == (WELL, True)


def test_a_daemon_that_runs_keeps_the_port() -> None:
    here = [DaemonFacts(kind="head", pid=7, address="127.0.0.1:6380", is_alive=True)]
    facts = msgspec.structs.replace(GOOD, daemons=here, port_is_free=False)
    (daemons,) = (one for one in check_machine(facts) if one.what == "daemons")
    assert daemons.state == WELL
    assert "head of 127.0.0.1:6380" in daemons.said


@pytest.mark.parametrize(("what", "change", "state", "said", "cure"), FAULTS)
def test_each_fault_is_named_with_its_cure(
    what: str, change: dict[str, Any], state: str, said: str, cure: str
) -> None:
    found = check_machine(msgspec.structs.replace(GOOD, **change))
    (fault,) = (one for one in found if one.state != WELL)
    assert (fault.what, fault.state) == (what, state)
    assert said in fault.said
    assert cure in fault.cure

"""Real accounts of one machine on one shared cluster, from the command line."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys

import pytest
from tests.polling import eventually
from tests.system.people.conftest import SharedMachine

from phalanx.protocol.frames import encode_frame
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.runtime.daemons.shared_sockets import shared_heads
from phalanx.runtime.os.connection_loop import MOST_OF_A_USER

PASSING = """
import glob, socket, sys
from phalanx.protocol.asking import Ask
from phalanx.protocol.frames import encode_frame
from phalanx.protocol.messages import Handed
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.request import encode_request

(path,) = glob.glob(sys.argv[1] + "/*/s/control")
mine, theirs = socket.socketpair()
door = socket.socket(socket.AF_UNIX)
door.connect(path)
socket.send_fds(door, [encode_frame([Handed("10.0.0.9:1")])], [theirs.fileno()])
theirs.close()
request = CreateQueue("stolen", QueueFields())
mine.settimeout(60)
try:
    mine.sendall(encode_frame([Ask(1, request.kind, encode_request(request))]))
    answer = mine.recv(1 << 16)
except (ConnectionResetError, BrokenPipeError):
    answer = b""
print(answer if answer else "refused")
"""


def socket_of(machine: SharedMachine) -> str:
    (port,) = os.listdir(machine.shared)
    return os.path.join(machine.shared, port, "s", "control")


def test_work_is_charged_to_the_account_whatever_the_environment_says(
    shared: SharedMachine, ana: str
) -> None:
    shared.said(ana, "run", "--name", "charged", "--", "sh", "-c", "true")
    assert shared.jobs()["charged"]["user"] == ana
    for listed in ("shares", "history", "report"):
        text = shared.said(ana, listed)
        assert ana in text and "victim" not in text, listed
    lines = shared.said(ana, "events", "--job", "charged", "--json").splitlines()
    events = [json.loads(line) for line in lines]
    assert {one["user"] for one in events} == {ana}


def test_one_person_does_not_touch_the_work_of_another(
    shared: SharedMachine, ana: str, bo: str
) -> None:
    shared.said(ana, "run", "-d", "--name", "mine", "--", "sleep", "600")
    eventually(lambda: shared.jobs()["mine"]["state"] == "Running")
    assert "mine" in shared.said(bo, "jobs"), "names and states are seen"
    for command in (
        ("cancel", "mine"),
        ("suspend", "mine"),
        ("requeue", "mine"),
        ("signal", "mine", "USR1"),
        ("delete", "mine"),
        ("logs", "mine"),
        ("job", "mine"),
        ("explain", "mine"),
        ("step", "--job", "mine", "--", "true"),
        ("queue", "close", "default"),
        ("queue", "update", "default", "--submit", "*"),
        ("queue", "create", "other"),
        ("set-shares", "default", f"{ana}=0"),
        ("set-role", bo, "admin"),
        ("audit",),
        ("drain", shared.nodes()["first"]["node_id"]),
        ("run", "--name", "first-in-line", "--priority", "10", "--", "true"),
    ):
        assert "may not" in shared.refused(bo, *command), command
    assert shared.jobs()["mine"]["state"] == "Running"
    shared.said(ana, "cancel", "mine")


def test_a_job_acts_for_its_owner_without_the_rights_of_the_node(
    shared: SharedMachine, ana: str
) -> None:
    """The job runs as root, who owns this cluster."""
    shared.said(ana, "run", "-d", "--name", "other", "--", "sleep", "600")
    tries = "; ".join(
        f"{{ {command}; }} >/dev/null 2>&1; echo $?"
        for command in (
            "$P cancel other",
            "$P queue create zz",
            "$P set-role nobody admin",
            "env -i HOME=$HOME XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR setsid $P queue create zz",
            "env PHALANX_JOB=other $P cancel other",
            "$P can cancel within",
        )
    )
    script = os.path.join(shared.directory, "within.sh")
    with open(script, "w") as file:
        file.write(f'P="{sys.executable} -m phalanx"; {tries}')
    shared.said(ana, "run", "--name", "within", "--cpus", "0", "--", "sh", script)
    said = shared.said(ana, "logs", "within").split()
    assert said == ["4", "4", "4", "4", "4", "0"]
    shared.said(ana, "cancel", "other")


def test_a_job_sees_no_history_of_other_people(shared: SharedMachine, ana: str, bo: str) -> None:
    shared.said(bo, "run", "--name", "past-of-bo", "--", "true")
    shared.said(ana, "run", "--name", "past-of-ana", "--", "true")
    phalanx = f"{sys.executable} -m phalanx"
    commands = ["history", f"history --user {bo}", "report", "events", "jobs --all"]
    script = "; ".join(
        f"{phalanx} {command}; echo end-of-{n}" for n, command in enumerate(commands)
    )
    shared.said(ana, "run", "--name", "looks-back", "--cpus", "0", "--", "sh", "-c", script)
    said = shared.said(ana, "logs", "looks-back")
    assert "end-of-4" in said and "past-of-ana" in said
    assert "past-of-bo" not in said and f"{bo} " not in said, said
    assert "past-of-bo" in shared.said(ana, "history"), "people see names and amounts"


def test_the_audit_log_names_people_and_is_private(
    shared: SharedMachine, ana: str, bo: str
) -> None:
    shared.refused(bo, "queue", "create", "audited")
    rows = json.loads(shared.done("audit", "--denied", "--json", bo))
    assert rows[-1]["principal"] == f"unix:{bo}" and "admin" in rows[-1]["why"]
    assert rows[-1]["what"] == "CreateQueue queue audited"
    path = os.path.join(shared.home, ".phalanx", "store", f"{socket.gethostname()}.db.audit")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_roles_of_people(shared: SharedMachine, bo: str) -> None:
    node = shared.nodes()["first"]["node_id"]
    shared.done("set-role", bo, "operator")
    try:
        shared.said(bo, "drain", node)
        shared.said(bo, "undrain", node)
        assert "may not" in shared.refused(bo, "queue", "create", "zz")
        shared.done("set-role", bo, "viewer")
        assert "viewer" in shared.refused(bo, "run", "--name", "no", "--", "true")
    finally:
        shared.done("set-role", bo, "default")
    assert bo not in shared.done("roles")


def test_limits_hold_whoever_submits(shared: SharedMachine, ana: str, bo: str) -> None:
    shared.done("set-limits", "default", ana, "waiting=1", "running=0", "time=1h", "priority=5")
    try:
        shared.said(ana, "run", "-d", "--name", "first", "--", "true")
        eventually(lambda: "may run 0 jobs at a time" in shared.said(ana, "explain", "first"))
        refused = shared.as_user(ana, "run", "-d", "--name", "second", "--", "true")
        assert f"{ana} in queue default may have 1 jobs waiting, and has 1" in refused.stderr
        refused = shared.as_user(ana, "run", "-d", "--time", "2h", "--name", "long", "--", "true")
        assert "may run a job for at most 1h" in refused.stderr
        assert "1 of 1" in shared.said(ana, "limits")
        assert "may not" in shared.refused(ana, "set-limits", "default", ana, "waiting=9")
        shared.said(bo, "run", "--name", "of-bo", "--", "true")
    finally:
        shared.done("set-limits", "default", ana, "waiting=none", "running=none", "time=none")
        shared.done("set-limits", "default", ana, "priority=none")
    eventually(lambda: shared.jobs()["first"]["state"] == "Completed")
    assert ana not in shared.done("limits")


def test_a_job_does_not_pass_for_the_gateway(shared: SharedMachine) -> None:
    """A program in a job passes its own socket to the head, as a gateway passes the connections of
    other nodes.
    """
    script = os.path.join(shared.directory, "passing.py")
    with open(script, "w") as file:
        file.write(PASSING)
    shared.done("run", "--name", "passing", "--", sys.executable, script, shared.root)
    assert shared.done("logs", "passing").split() == ["refused"]


def test_only_requests_come_in_at_the_shared_socket(shared: SharedMachine) -> None:
    """The head ends a connection that introduces itself as a node, or that passes a socket."""
    path = socket_of(shared)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(encode_frame([Hello(PROTOCOL_VERSION, bytes(16), "node", 1)]))
        assert sock.recv(1) == b""
    mine, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as sock, mine, theirs:
        sock.connect(path)
        socket.send_fds(sock, [b"\0\0\0\1\xff"], [theirs.fileno()])
        assert sock.recv(1) == b""


def test_an_account_has_no_more_than_its_connections(shared: SharedMachine) -> None:
    opened = []
    try:
        for _ in range(MOST_OF_A_USER + 1):
            opened.append(socket.socket(socket.AF_UNIX))
            opened[-1].connect(socket_of(shared))
            opened[-1].settimeout(60)
        assert opened[-1].recv(1) == b""
    finally:
        for one in opened:
            one.close()


def test_a_directory_that_others_can_write_is_no_head(
    shared: SharedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = os.path.dirname(os.path.dirname(socket_of(shared)))
    address = f"unix:{directory}"
    assert shared_heads(address)
    os.chmod(directory, 0o777)
    try:
        with pytest.raises(PermissionError, match="open to writers"):
            shared_heads(address)
    finally:
        os.chmod(directory, 0o755)


def test_the_address_names_the_head(shared: SharedMachine, ana: str) -> None:
    directory = os.path.dirname(os.path.dirname(socket_of(shared)))
    found = shared.said(ana, "jobs", "--address", f"unix:{directory}", PHALANX_SHARED_DIR="")
    assert found
    missing = shared.as_user(ana, "jobs", "--address", "unix:/nowhere")
    assert "No head runs at unix:/nowhere" in missing.stderr

"""The cluster of one job: its first member runs a head, and each member runs a node of that head.

All processes run under the job's account. The members recognize each other by the secret of their
gang, which only they and the cluster that runs the job have. So tasks, actors and objects of the
job's program stay within one account, on all machines of the job.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import NamedTuple, NoReturn

from phalanx.errors import SystemFailureError
from phalanx.model.accelerators import VISIBLE
from phalanx.protocol.bundle_messages import SECRET_FILE
from phalanx.protocol.requests.cluster import ListNodes
from phalanx.runtime.daemons.finding import ask_cluster
from phalanx.runtime.daemons.local import split_address
from phalanx.runtime.daemons.starting import (
    Daemon,
    HeadOptions,
    NodeOptions,
    start_head,
    start_node,
)
from phalanx.runtime.os.node_amounts import node_amounts
from phalanx.runtime.os.session import Session

START_S = 300.0
"""Seconds within which all members must have joined. Their machines may start them slowly."""
_AGAIN_S = 0.2
_LOOK_S = 2.0
_ANSWER_S = 10.0


class Member(NamedTuple):
    """The facts about a member that its cluster gives it in variables."""

    rank: int
    size: int
    local_size: int
    head: str
    """HOST:PORT of the head that the first member runs."""
    host: str
    """The address of the member's own machine."""
    cpus: float
    devices: dict[str, int]
    """The number of devices of each kind that the member holds."""
    secret: str
    own: str
    """A directory that only this member uses."""


def read_member(variables: Mapping[str, str]) -> Member:
    """Return the member that this process runs in. Raises LookupError, with the reason, if the
    process is no member of a gang or has no secret.
    """
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PHALANX_FILES", "PHALANX_CPUS")
    missing = [name for name in names if not variables.get(name)]
    if missing:
        raise LookupError(
            f"this is no member of a gang ({missing[0]} is not set): submit the program with "
            "`phalanx run --gang N -- $PHALANX_PYTHON -m phalanx symmetric-run -- PROGRAM`."
        )
    files = variables["PHALANX_FILES"]
    try:
        with open(os.path.join(files, SECRET_FILE), encoding="ascii") as file:
            secret = file.read()
    except OSError:
        raise LookupError(
            "this gang has no secret: only gangs that run as their submitters have one (phalanx "
            "start --head --shared --system). phalanx.init() reaches other clusters by itself."
        ) from None
    held = {kind: variables.get(name, "") for kind, name in VISIBLE.items()}
    return Member(
        rank=int(variables["RANK"]),
        size=int(variables["WORLD_SIZE"]),
        local_size=int(variables.get("LOCAL_WORLD_SIZE") or 1),
        head=f"{variables['MASTER_ADDR']}:{variables['MASTER_PORT']}",
        host=variables.get("PHALANX_NODE_ADDRESS") or "127.0.0.1",
        cpus=float(variables["PHALANX_CPUS"]),
        devices={kind: len(text.split(",")) for kind, text in held.items() if text},
        secret=secret,
        own=os.path.join(files, "own"),
    )


class JobCluster:
    """The daemons of one member."""

    def __init__(self, member: Member, object_store_bytes: int | None = None) -> None:
        self._member = member
        self._object_store_bytes = object_store_bytes
        self._ends, self._alive = os.pipe()
        self._daemons: list[Daemon] = []
        self._token_file = ""

    def start(self) -> None:
        """Start the member's daemons. Raises SystemFailureError, and TimeoutError if the first
        member has no head in time.
        """
        me = self._member
        self._token_file = _private_file(me.own, f"token-{me.rank}", me.secret)
        if me.rank == 0:
            host, port = split_address(me.head)
            options = HeadOptions(
                host=host,
                port=port,
                token_file=self._token_file,
                marks=os.path.join(me.own, "marks"),
                is_private=True,
            )
            self._daemons.append(start_head(options, self._ends))
        else:
            self._wait_for_head()
        self._daemons.append(start_node(self._node(), self._ends))

    def head_session(self) -> Session:
        """Return the session of the head. Only the first member has one."""
        return self._daemons[0].session

    def node_session(self) -> Session:
        """Return the session of this member's node."""
        return self._daemons[-1].session

    def _node(self) -> NodeOptions:
        me = self._member
        here = node_amounts(
            me.cpus,
            me.devices.get("GPU", 0),
            {kind: float(count) for kind, count in me.devices.items() if kind != "GPU"},
            self._object_store_bytes,
            host=me.host,
            is_first=me.rank == 0,
        )
        resources = dict(here.resources)
        resources["memory"] = resources["memory"] / me.local_size
        store = here.object_store_bytes
        if self._object_store_bytes is None:
            store //= me.local_size
            resources["object_store_memory"] = float(store)
        return NodeOptions(
            head=me.head,
            resources=resources,
            labels=here.labels,
            object_store_bytes=store,
            node_name=f"member-{me.rank}",
            host=me.host,
            token_file=self._token_file,
            topology=here.topology,
            is_private=True,
        )

    def _wait_for_head(self) -> None:
        deadline = time.monotonic() + START_S
        while not is_open(self._member.head):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job's first member has no head at {self._member.head}")
            time.sleep(_AGAIN_S)

    def wait_for_all(self) -> None:
        """Wait until all members have joined. Raises TimeoutError."""
        deadline = time.monotonic() + START_S
        while True:
            rows = ask_cluster(self._member.head, ListNodes(), _ANSWER_S)
            joined = sum(row.state == "ALIVE" for row in rows)
            if joined >= self._member.size:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{joined} of {self._member.size} members have joined")
            time.sleep(_AGAIN_S)

    def wait_for_end(self) -> bool:
        """Wait until the head or this member's node has ended. Returns True if the head has ended,
        False if only the node has.
        """
        node = self._daemons[-1].process
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.wait(_LOOK_S)
                return not is_open(self._member.head)
            try:
                ask_cluster(self._member.head, ListNodes(), _ANSWER_S)
            except (ConnectionError, TimeoutError, SystemFailureError):
                if not is_open(self._member.head):
                    return True

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start the member's daemons, and end them when the block ends or a SIGTERM arrives. Raises
        as `start` does.
        """
        signal.signal(signal.SIGTERM, _leave)
        try:
            self.start()
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.end()

    def end(self) -> None:
        """End the daemons, the node first."""
        for daemon in reversed(self._daemons):
            daemon.stop()
        for fd in (self._ends, self._alive):
            os.close(fd)
        if self._token_file:
            os.unlink(self._token_file)


def run_in_cluster(member: Member, argv: Sequence[str], object_store_bytes: int | None) -> int:
    """Run a program in the first member once all members have joined, and return its exit code. In
    the other members, serve the program until it ends.

    Raises the errors of `JobCluster.start` and `JobCluster.wait_for_all`.
    """
    cluster = JobCluster(member, object_store_bytes)
    with cluster.running():
        if member.rank:
            if not cluster.wait_for_end():
                raise SystemFailureError("the node of this member has ended by itself")
            return 0
        cluster.wait_for_all()
        return _run(argv, {**os.environ, "PHALANX_ADDRESS": member.head})


def _run(argv: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run the program. After a SIGTERM, pass the signal on to the program, and wait for its end."""
    with subprocess.Popen(argv, env=variables) as program:
        signal.signal(signal.SIGTERM, lambda *_: program.terminate())
        code = program.wait()
    return code if code >= 0 else 128 - code


def is_open(address: str) -> bool:
    """Whether a process listens at HOST:PORT, or may listen there although it does not answer
    now.
    """
    try:
        socket.create_connection(split_address(address), timeout=_ANSWER_S).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    return True


def _private_file(directory: str, name: str, text: str) -> str:
    """Write a file that only this account can read, even if other accounts can enter the
    directory.
    """
    path = os.path.join(directory, name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(text)
    return path


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)

"""Requests of a machine's processes that their node answers itself, without the head."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.model.rows.explanation import Explanation
from phalanx.model.system_settings import SystemSettings
from phalanx.observe.task_journal import Run
from phalanx.protocol.requests.request import NEWCOMERS, Request, Role


class Introduction(msgspec.Struct, array_like=True):
    """A new driver's identity, and facts about the cluster.

    The facts are the id of the driver's process, the driver's node, the cluster's head as HOST:PORT
    ("" for no head), and the cluster's settings.
    """

    process: bytes
    node_id: str
    address: str
    settings: SystemSettings = SystemSettings()
    protocol: int = 0
    """The version of the messages that the node speaks."""


class RegisterDriver(Request[Introduction]):
    """Register a program as a driver. The answer comes when its first workers are ready.

    `path`, `directory`, `namespace`, `hook` (pickled, run at the start) and `authkey`
    (multiprocessing's) are for the driver's workers. `queue` and `priority` are the defaults of the
    driver's work. Raises ValueError if the node runs another version of `python` (such as 3.11),
    because a version of Python cannot run functions that another version has pickled. Also raises
    ValueError if the node speaks another version of the `protocol`.
    """

    kind: ClassVar[int] = 1
    verb: ClassVar[Verb] = Verb.USE
    asked_by: ClassVar[tuple[Role, ...]] = NEWCOMERS

    path: list[str]
    directory: str
    namespace: str
    log_to_driver: bool
    hook: bytes = b""
    queue: str = ""
    priority: int = 0
    pid: int = 0
    entrypoint: str = ""
    """The program and its arguments, for display."""
    authkey: bytes = b""
    python: str = ""
    umask: int = -1
    """The umask for files of the driver's workers; -1 if unknown."""
    protocol: int = 0


class ExplainTask(Request[Explanation]):
    """Explain why the asker's tasks of this scheduling class wait for a worker. `name`: the tasks'
    name.
    """

    kind: ClassVar[int] = 10
    verb: ClassVar[Verb] = Verb.USE

    scheduling_class: int
    name: str


class GetNodeId(Request[str]):
    """Return the id of the node that the asker belongs to."""

    kind: ClassVar[int] = 2
    verb: ClassVar[Verb] = Verb.USE


class GetNodeLabels(Request[dict[str, str]]):
    """Return the labels of the asker's node."""

    kind: ClassVar[int] = 3
    verb: ClassVar[Verb] = Verb.USE


class ReserveMemory(Request[int]):
    """Reserve shared memory. The answer comes when there is room. Returns the number of bytes that
    the asker may write before it must ask again. Raises ObjectStoreFullError and OutOfDiskError.
    """

    kind: ClassVar[int] = 4
    verb: ClassVar[Verb] = Verb.USE

    wanted_bytes: int


class DefineEnvironment(Request[None]):
    """Set the variables of a runtime environment by the environment's key, before the key is first
    used.
    """

    kind: ClassVar[int] = 5
    verb: ClassVar[Verb] = Verb.USE

    key: bytes
    variables: dict[str, str]


class DrainOutput(Request[None]):
    """Wait until all output that workers have printed so far was passed on."""

    kind: ClassVar[int] = 6
    verb: ClassVar[Verb] = Verb.USE


class ListRuns(Request[list[Run]]):
    """List the finished tasks and calls that other processes of the asker's job on this node have
    submitted, as they reported them to the node.
    """

    kind: ClassVar[int] = 7
    verb: ClassVar[Verb] = Verb.USE


class GetStoreCounts(Request[dict[str, int]]):
    """Return the numbers of objects and of bytes in the node's shared memory, by kind."""

    kind: ClassVar[int] = 8
    verb: ClassVar[Verb] = Verb.USE


class PullObject(Request[None]):
    """Copy an object's file from another node to the asker's node. The answer comes when the copy
    is complete.

    The file has `size` bytes. With `will_map`, the copy stays until the asker sends Used or
    Unwanted. Raises ObjectLostError.
    """

    kind: ClassVar[int] = 9
    verb: ClassVar[Verb] = Verb.USE

    name: str
    size: int
    will_map: bool = True

"""What a node itself answers to the processes of its machine."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rows.explanation import Explanation
from phalanx.model.system_settings import SystemSettings
from phalanx.observe.task_journal import Run
from phalanx.protocol.requests.request import NEWCOMERS, Request, Role


class Introduction(msgspec.Struct, array_like=True):
    """Who a new driver is: the id of its process, the node that it uses, HOST:PORT of the
    cluster's head ("" where there is none), and the cluster's settings."""

    process: bytes
    node_id: str
    address: str
    settings: SystemSettings = SystemSettings()
    protocol: int = 0
    """The version that the node speaks."""


class RegisterDriver(Request[Introduction]):
    """A program becomes a driver. `path`, `directory`, `namespace`, `hook` (pickled, run at the
    start) and `authkey` (multiprocessing's) are what its workers need; `queue` and `priority` are
    those of its work unless that says otherwise. Answered when its first workers are there.

    Raises ValueError where the node's `python` (3.11, for instance) is another one: what
    one version pickles the other cannot run; and where it speaks another version of the `protocol`.
    """

    kind: ClassVar[int] = 1
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
    """The program and its arguments, for people."""
    authkey: bytes = b""
    python: str = ""
    umask: int = -1
    """Under which its workers make files; -1: nobody says."""
    protocol: int = 0


class ExplainTask(Request[Explanation]):
    """Why tasks of this class of the asker's wait for a worker; `name` is what they are called."""

    kind: ClassVar[int] = 10

    scheduling_class: int
    name: str


class GetNodeId(Request[str]):
    """The id of the node that the asker is on."""

    kind: ClassVar[int] = 2


class GetNodeLabels(Request[dict[str, str]]):
    """The labels of the node that the asker is on."""

    kind: ClassVar[int] = 3


class ReserveMemory(Request[int]):
    """So many bytes of shared memory are wanted: how many may be written without asking again.

    Answered when there is room. Raises ObjectStoreFullError and OutOfDiskError.
    """

    kind: ClassVar[int] = 4

    wanted_bytes: int


class DefineEnvironment(Request[None]):
    """What an environment's key stands for, before its first use: variables of processes."""

    kind: ClassVar[int] = 5

    key: bytes
    variables: dict[str, str]


class DrainOutput(Request[None]):
    """Answered when all that workers have printed by now was passed on."""

    kind: ClassVar[int] = 6


class ListRuns(Request[list[Run]]):
    """The runs of tasks that the asker's workers on this node have submitted, and reported."""

    kind: ClassVar[int] = 7


class GetStoreCounts(Request[dict[str, int]]):
    """Objects and bytes in the node's shared memory, by what they are counted as."""

    kind: ClassVar[int] = 8


class PullObject(Request[None]):
    """Have an object's file of `size` bytes, which another node has, copied here. Answered when it
    is there. It stays until the asker says Used or Unwanted if it `will_map` it. Raises
    ObjectLostError."""

    kind: ClassVar[int] = 9

    name: str
    size: int
    will_map: bool = True

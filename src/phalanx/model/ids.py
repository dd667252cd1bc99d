"""Identifiers: fixed-length bytes whose structure names the owner.

A process (driver or worker) is named by 16 bytes: 6 bytes that name its node, 6 random bytes, and
the 4 bytes of its job. A task is its owner's name and an 8-byte sequence number; an object is its
task and a 4-byte index. So the id of an object tells which process to ask about the object, and on
which node that process runs.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import ClassVar, NewType, TypeAlias, TypeVar

PROCESS_ID_BYTES = 16
WORKER_PADDING = 12
"""The zero bytes after a process's id in a WorkerID."""
PREFIX_BYTES = 6
"""The number of bytes that name the node, at the beginning of a process's id and of a node's id."""
CONTROL = bytes(PROCESS_ID_BYTES)
"""The id of the head's process."""
INDEX_BITS = 32
"""The number of bits of an object's index. Within a process, an object's number is `sequence <<
INDEX_BITS | index`.
"""
MAX_INDEX = (1 << INDEX_BITS) - 1

GroupId = NewType("GroupId", bytes)
"""The 18 bytes of a placement group: 14 random bytes, then the job's 4 bytes."""
GangId = NewType("GangId", GroupId)
"""The id of a gang, which nodes and programs see as a placement group with one bundle for each
member.
"""
BundleId: TypeAlias = tuple[GroupId, int]
"""A bundle: its placement group, and its index in the group. Where tasks name a bundle, index -1
stands for any bundle of the group.
"""
AttemptId: TypeAlias = tuple[GroupId, int]
"""An attempt to place the bundles of a placement group: the group, and the attempt's number."""
JobId = NewType("JobId", str)
"""The name of a submitted job in its namespace: `default/train`, or `default/sweep[3]` for an array
task. Ray's JobID of 4 bytes is something else: a JobID names a driver.
"""
MemberId: TypeAlias = tuple[GangId, int]
"""A member of a gang: the gang, and the member's index in it."""


OWN_CLUSTER_DOOR = CONTROL[:-1] + b"\1"
"""The id of the socket at which a driver waits for its client, if the driver's job has made a
cluster of its own. The socket is in the same directory as the socket of that cluster's head.
"""


def client_socket_of(driver: bytes) -> bytes:
    """Return the id of the socket at which a driver waits for its client, from the driver's id."""
    name = bytes(255 - byte for byte in driver[PREFIX_BYTES:WORKER_PADDING])
    return driver[:PREFIX_BYTES] + name + driver[WORKER_PADDING:]


_Id = TypeVar("_Id", bound="BaseID")


class BaseID(metaclass=ABCMeta):  # noqa: B024  # so that another engine's can be registered
    """A fixed-length identifier, which is hashable, comparable by value and picklable."""

    LENGTH: ClassVar[int] = 28
    __slots__ = ("_bytes",)

    def __init__(self, id_bytes: bytes) -> None:
        if not isinstance(id_bytes, bytes):
            raise TypeError(f"{type(self).__name__} takes bytes, got {type(id_bytes).__name__}.")
        if len(id_bytes) != self.LENGTH:
            raise ValueError(
                f"{type(self).__name__} takes {self.LENGTH} bytes, got {len(id_bytes)}."
            )
        self._bytes = id_bytes

    @classmethod
    def size(cls) -> int:
        """Return the length in bytes."""
        return cls.LENGTH

    @classmethod
    def nil(cls: type[_Id]) -> _Id:
        """Return the nil id, which names nothing; all its bits are set."""
        return cls(b"\xff" * cls.LENGTH)

    @classmethod
    def from_random(cls: type[_Id]) -> _Id:
        """Return a new random id. Machines must not call this method, because they have no
        randomness of their own.
        """
        from secrets import token_bytes

        return cls(token_bytes(cls.LENGTH))

    @classmethod
    def from_hex(cls: type[_Id], text: str) -> _Id:
        """Return the id whose hex() is `text`. Raises ValueError if `text` is not the hex of such
        an id.
        """
        return cls(bytes.fromhex(text))

    @classmethod
    def from_binary(cls: type[_Id], id_bytes: bytes) -> _Id:
        """Return the id made of exactly these bytes."""
        return cls(id_bytes)

    def binary(self) -> bytes:
        """Return the bytes of the id."""
        return self._bytes

    def hex(self) -> str:
        """Return the bytes of the id as lower-case hex digits."""
        return self._bytes.hex()

    def is_nil(self) -> bool:
        """Whether this is the nil id, which names nothing."""
        return self._bytes == b"\xff" * self.LENGTH

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __lt__(self, other: BaseID) -> bool:
        return self._bytes < other._bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hex()})"

    def __reduce__(self) -> tuple[type[BaseID], tuple[bytes]]:
        return (type(self), (self._bytes,))


class UniqueID(BaseID):
    """An identifier of 28 bytes."""

    __slots__ = ()


class NodeID(BaseID):
    """An identifier of 28 bytes, one per node process."""

    __slots__ = ()


class WorkerID(BaseID):
    """An identifier of 28 bytes: the 16 bytes of the process's id, then 12 zero bytes."""

    __slots__ = ()


class JobID(BaseID):
    """An identifier of 4 bytes, big-endian, counted by the head."""

    LENGTH = 4
    __slots__ = ()

    @classmethod
    def from_int(cls, number: int) -> JobID:
        """Return the id of job number `number`."""
        return cls(number.to_bytes(4, "big"))

    def int(self) -> int:
        """Return the job's number."""
        return int.from_bytes(self._bytes, "big")


class ActorID(BaseID):
    """An identifier of 16 bytes; the last four bytes are the job's id."""

    LENGTH = 16
    __slots__ = ()

    @property
    def job_id(self) -> JobID:
        """Return the job that made the actor."""
        return JobID(self._bytes[-4:])


class TaskID(BaseID):
    """An identifier of 24 bytes: the 16 bytes of the owner's id, then the task's sequence
    number.
    """

    LENGTH = 24
    __slots__ = ()

    def job_id(self) -> JobID:
        """Return the id of the task's job."""
        return JobID(self._bytes[12:16])

    def actor_id(self) -> ActorID:
        """Return the first 16 bytes, which name the owner, in the form of an ActorID."""
        return ActorID(self._bytes[:16])


class PlacementGroupID(BaseID):
    """An identifier of 18 bytes; the last four bytes are the job's id."""

    LENGTH = 18
    __slots__ = ()

    def binary(self) -> GroupId:
        """Return the bytes of the id."""
        return GroupId(self._bytes)


def process_id(prefix: bytes, unique: bytes, job: bytes) -> bytes:
    """Return the 16 bytes of a process's id: the node's prefix, 6 bytes of the process's own, and
    the job's id.
    """
    return prefix + unique + job


def node_process_id(prefix: bytes) -> bytes:
    """Return the 16 bytes of the id of the node's own process."""
    return prefix + bytes(PROCESS_ID_BYTES - PREFIX_BYTES)


def node_prefix(node_id: str) -> bytes:
    """Return the prefix of the ids of a node's processes: the first bytes of the node's id."""
    return bytes.fromhex(node_id[: 2 * PREFIX_BYTES])


def group_id_of(text: str) -> GroupId:
    """Return the id of the placement group whose hex() is `text`."""
    return GroupId(bytes.fromhex(text))


def worker_id_of(process: bytes) -> str:
    """Return the hex digits of a process's WorkerID."""
    return (process + bytes(WORKER_PADDING)).hex()


def task_id_bytes(owner: bytes, sequence: int) -> bytes:
    """Return the 24 bytes of task `sequence` of process `owner`."""
    return owner + sequence.to_bytes(8, "big")


def object_id_bytes(owner: bytes, number: int) -> bytes:
    """Return the 28 bytes of object `number` (`sequence << INDEX_BITS | index`) of process
    `owner`."""
    sequence, index = number >> INDEX_BITS, number & MAX_INDEX
    return owner + sequence.to_bytes(8, "big") + index.to_bytes(4, "big")


def split_object_id(id_bytes: bytes) -> tuple[bytes, int]:
    """Return (owner, number) of an object from its 28 bytes. Raises ValueError for another
    length.
    """
    if len(id_bytes) != 28:
        raise ValueError(f"An object's id needs to have length 28, got {len(id_bytes)} bytes.")
    sequence = int.from_bytes(id_bytes[16:24], "big")
    return id_bytes[:16], sequence << INDEX_BITS | int.from_bytes(id_bytes[24:], "big")

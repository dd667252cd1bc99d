"""Names of backends, reductions and options of collective operations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

unset_timeout_ms = timedelta(milliseconds=-1)
"""A group's own limit."""


class Backend:
    """Names of backends. `Backend("gloo")` is the name as it is kept; ValueError for none."""

    GLOO = "GLOO"
    NCCL = "NCCL"
    UNRECOGNIZED = "unrecognized"

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        upper = "GLOO" if name.upper() == "TORCH_GLOO" else name.upper()
        found: str = getattr(cls, upper, cls.UNRECOGNIZED)
        if found == cls.UNRECOGNIZED:
            raise ValueError(
                f"Unrecognized backend: '{name}'. Only NCCL and GLOO are supported, and what "
                "register_collective_backend was told of."
            )
        return found


class ReduceOp(Enum):
    """How values of all members become one."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3


@dataclass
class AllReduceOptions:
    """See `allreduce`."""

    reduceOp: ReduceOp = ReduceOp.SUM
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class BarrierOptions:
    """See `barrier`."""

    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class ReduceOptions:
    """See `reduce`."""

    reduceOp: ReduceOp = ReduceOp.SUM
    root_rank: int = 0
    root_tensor: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class AllGatherOptions:
    """See `allgather`."""

    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class BroadcastOptions:
    """See `broadcast`."""

    root_rank: int = 0
    root_tensor: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class ReduceScatterOptions:
    """See `reducescatter`."""

    reduceOp: ReduceOp = ReduceOp.SUM
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class SendOptions:
    """See `send`."""

    dst_rank: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class RecvOptions:
    """See `recv`."""

    src_rank: int = 0
    timeout_ms: timedelta = unset_timeout_ms

"""Backends, reductions and options of collective operations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

unset_timeout_ms = timedelta(milliseconds=-1)
"""The value of a time limit which means that the time limit of the group applies."""


class Backend:
    """The names of backends. `Backend("gloo")` returns the name in its normal form, and raises
    ValueError for an unknown name.
    """

    GLOO = "GLOO"
    NCCL = "NCCL"
    UNRECOGNIZED = "unrecognized"

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        upper = "GLOO" if name.upper() == "TORCH_GLOO" else name.upper()
        found: str = getattr(cls, upper, cls.UNRECOGNIZED)
        if found == cls.UNRECOGNIZED:
            raise ValueError(
                f"Unrecognized backend: '{name}'. Supported: NCCL, GLOO, and names given to "
                "register_collective_backend."
            )
        return found


class ReduceOp(Enum):
    """The operations that combine the values of all members into one value."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3


@dataclass
class AllReduceOptions:
    """The options of `allreduce`."""

    reduceOp: ReduceOp = ReduceOp.SUM
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class BarrierOptions:
    """The options of `barrier`."""

    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class ReduceOptions:
    """The options of `reduce`."""

    reduceOp: ReduceOp = ReduceOp.SUM
    root_rank: int = 0
    root_tensor: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class AllGatherOptions:
    """The options of `allgather`."""

    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class BroadcastOptions:
    """The options of `broadcast`."""

    root_rank: int = 0
    root_tensor: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class ReduceScatterOptions:
    """The options of `reducescatter`."""

    reduceOp: ReduceOp = ReduceOp.SUM
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class SendOptions:
    """The options of `send`."""

    dst_rank: int = 0
    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class RecvOptions:
    """The options of `recv`."""

    src_rank: int = 0
    timeout_ms: timedelta = unset_timeout_ms

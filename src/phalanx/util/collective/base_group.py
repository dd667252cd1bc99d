"""What a backend's group does: who writes a backend derives from this, as on Ray."""

from __future__ import annotations

from typing import Any, NoReturn

from phalanx.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    BarrierOptions,
    BroadcastOptions,
    RecvOptions,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)


class BaseGroup:
    """One process's part in a group. Tensors come in lists of one, and get results."""

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        self._world_size = world_size
        self._rank = rank
        self._group_name = group_name

    @property
    def rank(self) -> int:
        """This process's number in the group, from 0."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many processes the group has."""
        return self._world_size

    @property
    def group_name(self) -> str:
        """What the group is called."""
        return self._group_name

    def destroy_group(self) -> None:
        """The process leaves the group; nothing, unless the backend does something."""

    def _lacks(self, operation: str) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} has no {operation}")

    @classmethod
    def backend(cls) -> str:
        """The backend's name."""
        raise NotImplementedError(f"{cls.__name__} does not name its backend")

    @classmethod
    def check_backend_availability(cls) -> bool:
        """Whether what it needs is installed here."""
        return False

    def allreduce(self, tensor: list[Any], allreduce_options: AllReduceOptions) -> None:
        """See `allreduce` of this package."""
        self._lacks("allreduce")

    def barrier(self, barrier_options: BarrierOptions | None = None) -> None:
        """See `barrier` of this package."""
        self._lacks("barrier")

    def reduce(self, tensor: list[Any], reduce_options: ReduceOptions) -> None:
        """See `reduce` of this package."""
        self._lacks("reduce")

    def allgather(
        self,
        tensor_list: list[list[Any]],
        tensor: list[Any],
        allgather_options: AllGatherOptions,
    ) -> None:
        """See `allgather` of this package."""
        self._lacks("allgather")

    def broadcast(self, tensor: list[Any], broadcast_options: BroadcastOptions) -> None:
        """See `broadcast` of this package."""
        self._lacks("broadcast")

    def reducescatter(
        self,
        tensor: list[Any],
        tensor_list: list[list[Any]],
        reducescatter_options: ReduceScatterOptions,
    ) -> None:
        """See `reducescatter` of this package."""
        self._lacks("reducescatter")

    def send(self, tensor: list[Any], send_options: SendOptions) -> None:
        """See `send` of this package."""
        self._lacks("send")

    def recv(self, tensor: list[Any], recv_options: RecvOptions) -> None:
        """See `recv` of this package."""
        self._lacks("recv")

"""The base class of groups. A backend derives its own class of groups from it, as with Ray."""

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
    """One process's membership in a group. Each operation takes a list with one tensor."""

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        self._world_size = world_size
        self._rank = rank
        self._group_name = group_name

    @property
    def rank(self) -> int:
        """The number of this process in the group, counted from 0."""
        return self._rank

    @property
    def world_size(self) -> int:
        """The number of processes in the group."""
        return self._world_size

    @property
    def group_name(self) -> str:
        """The group's name."""
        return self._group_name

    def destroy_group(self) -> None:
        """Release what the group uses. By default there is nothing to release."""

    def _lacks(self, operation: str) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} has no {operation}")

    @classmethod
    def backend(cls) -> str:
        """Return the backend's name."""
        raise NotImplementedError(f"{cls.__name__} does not name its backend")

    @classmethod
    def check_backend_availability(cls) -> bool:
        """Whether the packages that the backend needs are installed here."""
        return False

    def allreduce(self, tensor: list[Any], allreduce_options: AllReduceOptions) -> None:
        """Replace every member's tensor by the reduction of all of them."""
        self._lacks("allreduce")

    def barrier(self, barrier_options: BarrierOptions | None = None) -> None:
        """Wait until every member has called this."""
        self._lacks("barrier")

    def reduce(self, tensor: list[Any], reduce_options: ReduceOptions) -> None:
        """Replace the root's tensor by the reduction of all."""
        self._lacks("reduce")

    def allgather(
        self,
        tensor_list: list[list[Any]],
        tensor: list[Any],
        allgather_options: AllGatherOptions,
    ) -> None:
        """Copy every member's tensor into the list of each member."""
        self._lacks("allgather")

    def broadcast(self, tensor: list[Any], broadcast_options: BroadcastOptions) -> None:
        """Replace every member's tensor by the root's."""
        self._lacks("broadcast")

    def reducescatter(
        self,
        tensor: list[Any],
        tensor_list: list[list[Any]],
        reducescatter_options: ReduceScatterOptions,
    ) -> None:
        """Reduce item i of all members' lists into the tensor of member i."""
        self._lacks("reducescatter")

    def send(self, tensor: list[Any], send_options: SendOptions) -> None:
        """Send the tensor to one member."""
        self._lacks("send")

    def recv(self, tensor: list[Any], recv_options: RecvOptions) -> None:
        """Fill the tensor with the tensor that a member sends."""
        self._lacks("recv")

"""Collective operations among actors or tasks, with Ray's names: `phalanx.util.collective`.

    collective.init_collective_group(2, rank, backend="gloo", group_name="workers")
    collective.allreduce(gradients, "workers")

Results are written into the given tensors: torch tensors on the CPU, or numpy arrays. The backend
GLOO needs torch, which listens, without a password, at the address by which nodes reach each other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from phalanx.api.runtime_context import get_runtime_context
from phalanx.objects.handle import ActorHandle
from phalanx.util.collective import groups
from phalanx.util.collective.base_group import BaseGroup
from phalanx.util.collective.gloo import TIMEOUT_MS
from phalanx.util.collective.groups import is_backend_available, register_collective_backend
from phalanx.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    Backend,
    BroadcastOptions,
    RecvOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)


def gloo_available() -> bool:
    """Whether torch is installed here."""
    return is_backend_available(Backend.GLOO)


def nccl_available() -> bool:
    """Whether groups of NCCL are available. Always False: Phalanx has none."""
    return is_backend_available(Backend.NCCL)


def init_collective_group(
    world_size: int,
    rank: int,
    backend: str = Backend.NCCL,
    group_name: str = "default",
    gloo_timeout: int = TIMEOUT_MS,
) -> None:
    """Join a group of `world_size` processes as member `rank`. Returns when all have joined.

    Call this in an actor or a task. Raises RuntimeError elsewhere, for a group that this process is
    already in, and for a backend that is not available. Raises ValueError for a rank that is not
    from 0 to `world_size` - 1, and TimeoutError when the others do not join within `gloo_timeout`
    milliseconds.

    Example:
        collective.init_collective_group(world_size=2, rank=0, backend="gloo", group_name="workers")
    """
    _check_inside()
    if not group_name:
        raise ValueError(f"group_name '{group_name}' needs to be a string.")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be from 0 to {world_size - 1}, got {rank}")
    groups.join(backend, world_size, rank, group_name, gloo_timeout)


def create_collective_group(
    actors: Sequence[ActorHandle[Any]],
    world_size: int,
    ranks: Sequence[int],
    backend: str = Backend.NCCL,
    group_name: str = "default",
    gloo_timeout: int = TIMEOUT_MS,
) -> None:
    """Declare a group of these actors: each actor joins the group at its first operation.

    Raises RuntimeError for ranks that do not fit the actors, a name that is taken, and a backend
    that is not available here.

    Example:
        collective.create_collective_group(actors, world_size=2, ranks=[0, 1], backend="gloo")
    """
    if len(ranks) != len(actors):
        raise RuntimeError(
            f"Each actor should correspond to one rank. Got '{len(ranks)}' ranks but "
            f"'{len(actors)}' actors"
        )
    if set(ranks) != set(range(len(ranks))):
        raise RuntimeError(
            f"Ranks must be a permutation from 0 to '{len(ranks)}'. Got "
            f"'{''.join(str(rank) for rank in ranks)}'."
        )
    if world_size <= 0:
        raise RuntimeError(f"World size must be greater than zero. Got '{world_size}'.")
    if world_size != len(ranks):
        raise RuntimeError(f"A group of {world_size} needs {world_size} ranks, got {len(ranks)}.")
    groups.check_backend(backend)
    ids = [actor._actor_id.hex() for actor in actors]
    groups.declare(group_name, ids, list(ranks), world_size, backend, gloo_timeout)


def destroy_collective_group(group_name: str = "default") -> None:
    """Leave a group, so that its name can be used again. Does nothing if this process is not in
    it.
    """
    _check_inside()
    groups.leave(group_name)


def is_group_initialized(group_name: str) -> bool:
    """Whether this process is in a group with that name."""
    return groups.known(group_name) is not None


def get_rank(group_name: str = "default") -> int:
    """Return this process's rank in the group; -1 if it is not in the group."""
    _check_inside()
    group = groups.known(group_name)
    return -1 if group is None else group.rank


def get_collective_group_size(group_name: str = "default") -> int:
    """Return the number of processes in the group; -1 if this process is not in it."""
    _check_inside()
    group = groups.known(group_name)
    return -1 if group is None else group.world_size


def get_group_handle(group_name: str = "default") -> BaseGroup:
    """Return the group. If it was declared for this actor, the actor joins it now. Raises
    RuntimeError if this process is not in the group.
    """
    _check_inside()
    return groups.group_of(group_name)


# ---- operations --------------------------------------------------------------------------------


def allreduce(tensor: Any, group_name: str = "default", op: ReduceOp = ReduceOp.SUM) -> None:
    """Replace every member's tensor by the reduction of all of them with `op`.

    Example:
        gradients = numpy.ones(4)
        collective.allreduce(gradients, "workers")  # in every member; each gets the sum
    """
    _check_tensor(tensor)
    get_group_handle(group_name).allreduce([tensor], AllReduceOptions(op))


def barrier(group_name: str = "default") -> None:
    """Wait until every member has called this."""
    get_group_handle(group_name).barrier()


def reduce(
    tensor: Any, dst_rank: int = 0, group_name: str = "default", op: ReduceOp = ReduceOp.SUM
) -> None:
    """Replace the tensor of member `dst_rank` by the reduction of all; the other tensors do not
    change.
    """
    _check_tensor(tensor)
    group = _group(group_name, dst_rank)
    group.reduce([tensor], ReduceOptions(op, dst_rank))


def broadcast(tensor: Any, src_rank: int = 0, group_name: str = "default") -> None:
    """Replace every member's tensor by that of member `src_rank`."""
    _check_tensor(tensor)
    group = _group(group_name, src_rank)
    group.broadcast([tensor], BroadcastOptions(src_rank))


def allgather(tensor_list: list[Any], tensor: Any, group_name: str = "default") -> None:
    """Copy the tensor of each member i into item i of `tensor_list`."""
    _check_tensor(tensor)
    _check_tensors(tensor_list)
    group = get_group_handle(group_name)
    _check_count(tensor_list, group)
    group.allgather([tensor_list], [tensor], AllGatherOptions())


def reducescatter(
    tensor: Any, tensor_list: list[Any], group_name: str = "default", op: ReduceOp = ReduceOp.SUM
) -> None:
    """Reduce item i of all members' `tensor_list` into the tensor of member i."""
    _check_tensor(tensor)
    _check_tensors(tensor_list)
    group = get_group_handle(group_name)
    _check_count(tensor_list, group)
    group.reducescatter([tensor], [tensor_list], ReduceScatterOptions(op))


def send(tensor: Any, dst_rank: int, group_name: str = "default") -> None:
    """Send the tensor to member `dst_rank`, which calls `recv`."""
    _check_tensor(tensor)
    group = _group(group_name, dst_rank)
    if dst_rank == group.rank:
        raise RuntimeError(f"The destination rank '{dst_rank}' is self.")
    group.send([tensor], SendOptions(dst_rank))


def recv(tensor: Any, src_rank: int, group_name: str = "default") -> None:
    """Fill the tensor with the tensor that member `src_rank` sends."""
    _check_tensor(tensor)
    group = _group(group_name, src_rank)
    if src_rank == group.rank:
        raise RuntimeError(f"The source rank '{src_rank}' is self.")
    group.recv([tensor], RecvOptions(src_rank))


# ---- checks ------------------------------------------------------------------------------------


def _group(name: str, rank: int) -> BaseGroup:
    group = get_group_handle(name)
    if rank < 0:
        raise ValueError(f"rank '{rank}' is negative.")
    if rank >= group.world_size:
        raise ValueError(f"rank '{rank}' must be less than world size '{group.world_size}'")
    return group


def _check_inside() -> None:
    if get_runtime_context().get_task_id() is None:
        raise RuntimeError("The collective APIs shall be only used inside a Ray actor or task.")


def _check_tensor(tensor: Any) -> None:
    for module, name in (("numpy", "ndarray"), ("torch", "Tensor"), ("cupy", "ndarray")):
        imported = sys.modules.get(module)  # a module that is not imported has no tensors here
        if imported is not None and isinstance(tensor, getattr(imported, name)):
            return
    raise RuntimeError(
        f"Unrecognized tensor type '{type(tensor)}'. Supported types are: np.ndarray, "
        "torch.Tensor, cupy.ndarray."
    )


def _check_tensors(tensors: Any) -> None:
    if not isinstance(tensors, list):
        raise RuntimeError(f"The input must be a list of tensors. Got '{type(tensors)}'.")
    if not tensors:
        raise RuntimeError("Got an empty list of tensors.")
    for tensor in tensors:
        _check_tensor(tensor)


def _check_count(tensors: list[Any], group: BaseGroup) -> None:
    if len(tensors) != group.world_size:
        raise RuntimeError(
            f"The length of the tensor list operands must be equal to world_size: "
            f"{len(tensors)} tensors in a group of {group.world_size}."
        )


__all__ = [
    "Backend",
    "BaseGroup",
    "ReduceOp",
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "create_collective_group",
    "destroy_collective_group",
    "get_collective_group_size",
    "get_group_handle",
    "get_rank",
    "gloo_available",
    "init_collective_group",
    "is_backend_available",
    "is_group_initialized",
    "nccl_available",
    "recv",
    "reduce",
    "reducescatter",
    "register_collective_backend",
    "send",
]

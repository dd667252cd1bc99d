"""Groups that use torch's gloo. They do not affect the program's own use of torch.distributed."""

from __future__ import annotations

import contextlib
import importlib.util
import time
from datetime import timedelta
from typing import Any

from phalanx.util.collective import rendezvous
from phalanx.util.collective.base_group import BaseGroup
from phalanx.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    Backend,
    BarrierOptions,
    BroadcastOptions,
    RecvOptions,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)

TIMEOUT_MS = 30_000


class GlooGroup(BaseGroup):
    """A group that uses gloo, for torch tensors on the CPU and numpy arrays.

    Raises TimeoutError when not all members join within `gloo_timeout` milliseconds. An operation
    that takes longer raises torch's RuntimeError.
    """

    def __init__(
        self, world_size: int, rank: int, group_name: str, gloo_timeout: int | None = None
    ) -> None:
        super().__init__(world_size, rank, group_name)
        timeout_ms = TIMEOUT_MS if gloo_timeout is None else gloo_timeout
        self._limit = timedelta(milliseconds=timeout_ms)
        self._gloo = _connected(world_size, rank, group_name, self._limit)

    @classmethod
    def backend(cls) -> str:
        return str(Backend.GLOO)

    @classmethod
    def check_backend_availability(cls) -> bool:
        return importlib.util.find_spec("torch") is not None

    def destroy_group(self) -> None:
        self._gloo = None

    # ---- operations --------------------------------------------------------------------------

    def allreduce(self, tensor: list[Any], allreduce_options: AllReduceOptions) -> None:
        from torch.distributed import AllreduceOptions

        options = AllreduceOptions()
        options.reduceOp = _torchs(allreduce_options.reduceOp)
        self._gloo.allreduce([_target(tensor[0])], options).wait()

    def barrier(self, barrier_options: BarrierOptions | None = None) -> None:
        self._gloo.barrier().wait()

    def reduce(self, tensor: list[Any], reduce_options: ReduceOptions) -> None:
        is_root = self.rank == reduce_options.root_rank
        # gloo writes partial sums into the other members' tensors, so these pass a copy.
        used = _target(tensor[0]) if is_root else _source(tensor[0]).clone()
        root, op = reduce_options.root_rank, _torchs(reduce_options.reduceOp)
        self._gloo.reduce(used, root, op).wait()

    def allgather(
        self,
        tensor_list: list[list[Any]],
        tensor: list[Any],
        allgather_options: AllGatherOptions,
    ) -> None:
        targets = [_target(one) for one in tensor_list[0]]
        self._gloo.allgather([targets], [_source(tensor[0])]).wait()

    def broadcast(self, tensor: list[Any], broadcast_options: BroadcastOptions) -> None:
        root = broadcast_options.root_rank
        used = _source(tensor[0]) if self.rank == root else _target(tensor[0])
        self._gloo.broadcast(used, root).wait()

    def reducescatter(
        self,
        tensor: list[Any],
        tensor_list: list[list[Any]],
        reducescatter_options: ReduceScatterOptions,
    ) -> None:
        """Reduce item i of all members' lists into the tensor of member i. This takes one reduction
        for each member, because gloo has no reducescatter.
        """
        parts, target = tensor_list[0], _target(tensor[0])
        if target.shape != _source(parts[self.rank]).shape:
            raise ValueError(
                f"the tensor's shape is {tuple(target.shape)}, that of this member's part "
                f"{tuple(_source(parts[self.rank]).shape)}"
            )
        op = _torchs(reducescatter_options.reduceOp)
        for owner, part in enumerate(parts):
            used = _source(part).clone()
            self._gloo.reduce(used, owner, op).wait()
            if owner == self.rank:
                target.copy_(used)

    def send(self, tensor: list[Any], send_options: SendOptions) -> None:
        self._gloo.send([_source(tensor[0])], send_options.dst_rank, 0).wait()

    def recv(self, tensor: list[Any], recv_options: RecvOptions) -> None:
        self._gloo.recv([_target(tensor[0])], recv_options.src_rank, 0).wait()


def _connected(world_size: int, rank: int, group: str, limit: timedelta) -> Any:
    until = time.monotonic() + limit.total_seconds()
    if rank > 0:
        return _joined(world_size, rank, group, limit, until)
    listening = rendezvous.listen_here(world_size)
    host, port = listening.getsockname()[:2]
    with contextlib.closing(listening):
        store = _store(host, port, limit, listening.detach())
    rendezvous.put("address", group, (host, port))
    try:
        return _process_group(store, world_size, rank, host, limit)
    finally:  # all members have joined, or no further member can join
        rendezvous.drop("address", group)


def _joined(world_size: int, rank: int, group: str, limit: timedelta, until: float) -> Any:
    from torch.distributed import DistNetworkError

    while True:
        host, port = rendezvous.wait_for("address", group, until)
        try:
            store = _store(host, port, limit)
        except DistNetworkError:  # the address of a first member that ended before all had joined
            if time.monotonic() > until:
                raise TimeoutError(
                    f"member 0 of the collective group '{group}' has ended"
                ) from None
            time.sleep(rendezvous.ASK_EVERY_S)
            continue
        with rendezvous.listen_here(1) as here:
            own_host = here.getsockname()[0]
        return _process_group(store, world_size, rank, own_host, limit)


def _store(host: str, port: int, limit: timedelta, listening: int | None = None) -> Any:
    from torch.distributed import TCPStore

    is_first = listening is not None
    more = {"master_listen_fd": listening} if is_first else {}
    return TCPStore(
        host, port, None, is_first, limit, wait_for_workers=False, use_libuv=False, **more
    )


def _process_group(store: Any, world_size: int, rank: int, host: str, limit: timedelta) -> Any:
    from torch.distributed import ProcessGroupGloo

    options = ProcessGroupGloo._Options()
    options._devices = [ProcessGroupGloo.create_device(hostname=host)]
    options._timeout = limit
    try:
        group = ProcessGroupGloo(store, rank, world_size, options)
        group.barrier().wait()
    except RuntimeError as error:
        raise TimeoutError(
            f"not all {world_size} members of the collective group joined: {error}"
        ) from error
    return group


def _torchs(operation: Any) -> Any:
    from torch.distributed import ReduceOp

    return getattr(ReduceOp, operation.name)


def _source(tensor: Any) -> Any:
    """Return the tensor as a torch tensor to read from."""
    import numpy
    import torch

    if isinstance(tensor, torch.Tensor):
        if tensor.device.type != "cpu":
            raise ValueError(f"gloo takes tensors on the CPU; this one is on {tensor.device}")
        return tensor
    if not isinstance(tensor, numpy.ndarray):
        raise ValueError(f"gloo takes torch.Tensor and numpy.ndarray, not {type(tensor).__name__}")
    return torch.from_numpy(tensor if tensor.flags.writeable else tensor.copy())


def _target(tensor: Any) -> Any:
    """Return the tensor as a torch tensor to write to."""
    import numpy

    if isinstance(tensor, numpy.ndarray) and not tensor.flags.writeable:
        raise ValueError(
            "the result is written into this array, which is read-only: it is an object of the "
            "object store, or an argument. Use a copy of it (numpy.array(x))."
        )
    return _source(tensor)

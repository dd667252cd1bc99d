"""Sharers of GPUs: a sharer that uses too much memory is ended, and memory that is not free again
is not given away.
"""

from __future__ import annotations

from typing import Any

from phalanx.model.gpu_sharing import sharing_amounts
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.device_holders import Holder
from phalanx.node.gpu_memory import GRACE_S, SUSPECT_AFTER_S, GpuMemory
from phalanx.node.gpu_shares import GpuShares, memory_in
from phalanx.observe.devices import DeviceProcess, DeviceSample
from phalanx.scheduler.devices.instances import Allocation, NodeResources
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet

GIB = 2**30


def asks(**options: object) -> ResourceSet:
    return ResourceSet.from_mapping(sharing_amounts(options))


class World:
    """One card of 80 GiB, with MPS daemons that only record what they are told."""

    def __init__(self, cards: int = 1) -> None:
        self.now = 0.0
        self.resources = NodeResources({"GPU": cards, "gpu_memory": 80 * GIB, "gpu_mps": 1})
        self.shares = GpuShares(self, self.resources.card_memory)
        self.held: dict[str, tuple[Holder, Allocation]] = {}
        self.ended_holders: list[tuple[str, str, bool]] = []
        self.looks = 0
        self.calls: list[str] = []
        self.dead: dict[int, str] = {}
        self.notes: list[str] = []
        self.memory = GpuMemory(
            self.resources,
            lambda: [holder for holder, _ in self.held.values()],
            lambda holder, reason, own: self.ended_holders.append((holder.name, reason, own)),
            self.look,
            self.shares,
            lambda text, **about: self.notes.append(text),
        )

    def look(self) -> None:
        self.looks += 1

    def directory(self, number: int, name: str) -> str:
        self.calls.append(f"start {number} {name}")
        return f"/mps{number}"

    def end(self, number: int) -> None:
        self.calls.append(f"end {number}")

    def ended(self) -> dict[int, str]:
        dead, self.dead = self.dead, {}
        return dead

    def begin(self, name: str, pid: int, **options: object) -> dict[str, str]:
        """Start a sharer with one process; return its environment variables."""
        allocation = self.resources.acquire(asks(**options))
        assert allocation is not None
        holder = Holder(
            name=name,
            devices=tuple(number for number, _ in allocation.instances["GPU"]),
            pids=(pid,),
            key=name.encode(),
            mode="mps" if options.get("gpu_share") == "mps" else "time",
            limits=memory_in(allocation, self.resources, self.resources.card_memory),
        )
        self.held[name] = (holder, allocation)
        return self.shares.variables(allocation, self.resources)

    def over(self, name: str) -> None:
        _, allocation = self.held.pop(name)
        self.resources.release(allocation)

    def see(self, *processes: tuple[int, int | None], after: float = 1.0) -> bool:
        """Report the processes of the card as (pid, GiB). The node names the sharer of each."""
        self.now += after
        names = {pid: holder.name for holder, _ in self.held.values() for pid in holder.pids}
        seen = tuple(
            DeviceProcess(pid, None if gib is None else gib * GIB, (), names.get(pid, ""))
            for pid, gib in processes
        )
        sample = DeviceSample(number=0, uuid="GPU-a", memory_total=80 * GIB, processes=seen)
        changed = self.memory.seen([sample], self.now)
        self.memory.tick(self.now)
        return changed

    def left(self) -> int:
        return self.resources.devices_left()["GPU"][0]


def test_the_variables_of_a_sharer_of_time() -> None:
    world = World()
    assert world.begin("a", 1, gpu_memory="20GiB") == {
        "PHALANX_GPU_MEMORY_LIMIT": str(20 * GIB),
        "PHALANX_GPU_MEMORY_FRACTION": "0.2500",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.2500",
    }
    assert world.begin("b", 2, num_gpus=0.5)["PHALANX_GPU_MEMORY_LIMIT"] == str(40 * GIB)
    assert world.calls == []
    assert World().begin("c", 3, num_gpus=1) == {}


def test_mps_gets_its_daemon_and_its_limits_and_ends_with_its_last_sharer() -> None:
    world = World()
    world.see()
    options: dict[str, Any] = {"gpu_share": "mps", "gpu_compute": 0.3}
    told = world.begin("a", 1, gpu_memory="20GiB", gpu_memory_limit="30GiB", **options)
    assert told["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert told["CUDA_MPS_PIPE_DIRECTORY"] == told["CUDA_MPS_LOG_DIRECTORY"] == "/mps0"
    assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={30 * 1024}M"
    assert told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "30"
    told = world.begin("b", 2, num_gpus=0.5, gpu_share="mps")
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in told
    world.over("a")
    assert world.calls == ["start 0 GPU-a", "start 0 GPU-a"]
    world.over("b")
    assert world.calls[-1] == "end 0"


def test_who_uses_too_much_for_longer_than_the_grace_is_ended_with_figures() -> None:
    world = World()
    world.begin("a", 1, gpu_memory="20GiB")
    world.begin("b", 2, gpu_memory="20GiB")
    world.see((1, 30), (2, 20))
    assert world.ended_holders == []
    assert world.looks == 1
    world.see((1, 19), (2, 20))
    world.see((1, 30), (2, 20))
    world.see((1, 31), (2, 20), after=GRACE_S)
    assert world.ended_holders == [
        ("a", "it used 31.0 GiB of the memory of GPU 0, above its limit of 20.0 GiB, for 5 s", True)
    ]


def test_a_limit_above_the_request_is_the_limit() -> None:
    world = World()
    world.begin("a", 1, gpu_memory="20GiB", gpu_memory_limit="40GiB")
    world.see((1, 35))
    world.see((1, 35), after=GRACE_S)
    assert world.ended_holders == []


def test_children_count_and_strangers_do_not() -> None:
    world = World()
    world.begin("a", 1, gpu_memory="20GiB")
    child = DeviceProcess(5, 15 * GIB, (1,), "a")
    alone = DeviceProcess(9, 60 * GIB)
    for now in (0.0, GRACE_S):
        processes = (DeviceProcess(1, 10 * GIB, (), "a"), child, alone)
        sample = DeviceSample(number=0, memory_total=80 * GIB, processes=processes)
        world.memory.seen([sample], now)
    assert [(name, "25.0 GiB" in reason) for name, reason, _ in world.ended_holders] == [
        ("a", True)
    ]


def test_memory_that_the_driver_does_not_tell_is_not_judged() -> None:
    world = World()
    world.begin("a", 1, gpu_memory="20GiB")
    world.see((1, None))
    world.see((1, None), after=GRACE_S)
    assert world.ended_holders == []


def test_a_place_is_given_away_when_its_memory_is_back() -> None:
    world = World()
    world.begin("a", 1, gpu_memory="20GiB")
    world.begin("b", 2, gpu_memory="20GiB")
    world.see((1, 18), (2, 20))
    world.over("a")
    assert world.left() == SCALE // 2 + SCALE // 4 - 2250
    assert world.looks == 1, "a reading is asked for"
    assert world.see((2, 20))
    assert world.left() == SCALE * 3 // 4


def test_the_card_of_the_last_sharer_is_closed_until_its_memory_is_back() -> None:
    world = World()
    world.begin("a", 1, gpu_memory="20GiB")
    world.see((1, 18))
    world.over("a")
    assert world.left() == 0
    world.see((1, 18))
    assert world.left() == 0
    world.see()
    assert world.left() == SCALE


def test_memory_that_stays_away_makes_its_card_suspect() -> None:
    world = World()
    world.begin("a", 1, gpu_memory="20GiB")
    world.see((1, 18))
    world.over("a")
    world.see((1, 18))
    assert world.memory.suspicion(0, world.now) == ""
    world.see((1, 18), after=SUSPECT_AFTER_S)
    assert world.memory.suspicion(0, world.now) == (
        "18.0 GiB of its memory did not come back when a ended"
    )
    assert world.left() == 0
    world.see()
    assert world.memory.suspicion(0, world.now) == ""
    assert world.left() == SCALE


def test_sharers_end_with_their_daemon_and_the_card_is_looked_at_before_it_is_given_again() -> None:
    world = World()
    world.see()
    world.begin("a", 1, gpu_memory="20GiB", gpu_share="mps")
    world.see((1, 5))
    world.dead = {0: "has ended"}
    world.memory.tick(world.now)
    assert world.ended_holders == [
        ("a", "the MPS daemon of GPU 0, which it used, has ended", False)
    ]
    assert world.left() == 0
    world.see((1, 5))
    assert world.left() == 0
    world.over("a")
    assert world.left() == 0
    world.see()
    assert world.left() == SCALE
    assert world.resources.modes() == {}


def test_who_works_in_a_bundle_may_use_what_the_bundle_holds() -> None:
    resources = NodeResources({"GPU": 2, "gpu_memory": 80 * GIB, "gpu_mps": 1})
    reserved = resources.acquire(asks(num_gpus=2, gpu_memory="20GiB"))
    assert reserved is not None
    pool = BundlePool(reserved)
    whole = pool.acquire(pool.resources)
    assert whole is not None
    assert memory_in(whole, pool, resources.card_memory) == {0: 20 * GIB, 1: 20 * GIB}
    pool.release(whole)
    one = pool.acquire(asks(gpu_memory="5GiB"))
    assert one is not None
    assert memory_in(one, pool, resources.card_memory) == {0: 5 * GIB}
    plain = pool.acquire(asks(num_gpus=1))
    assert plain is not None
    assert memory_in(plain, pool, resources.card_memory) == {1: 20 * GIB}
    assert pool.acquire(asks(num_gpus=1)) is None

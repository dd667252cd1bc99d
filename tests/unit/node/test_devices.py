"""A node's GPUs: an unhealthy one leaves the pool and may come back. And what happens if the driver
does not answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.node.device_holders import DeviceHolders, Holder
from phalanx.node.devices import AGAIN_AFTER_S, HANGS_AFTER_S, LOOK_EVERY_S, DeviceWatch
from phalanx.observe.device_health import BAD
from phalanx.observe.devices import DeviceProcess, DeviceSample
from phalanx.protocol.cluster_messages import CloseDevices
from phalanx.protocol.report_messages import DevicesSeen
from phalanx.scheduler.devices.instances import NodeResources


class World:
    """The device watch, with stand-ins for everything that it calls."""

    is_connected = True

    def __init__(self) -> None:
        self.now = 0.0
        self.sent: list[Any] = []
        self.notes: list[str] = []
        self.dispatched = 0
        self.begun = self.ended = 0
        self.can_begin = True
        self.resources = NodeResources({"CPU": 1, "GPU": 4})
        leases: Any = type("Leases", (), {"leases": {}})()
        self.watch = DeviceWatch(
            self.resources,
            self,
            holders=DeviceHolders(self, leases),
            head=self,  # type: ignore[arg-type]
            room_changed=self.room_changed,
            clock=lambda: self.now,
            note=lambda text, **about: self.notes.append(text),
        )

    def holders(self) -> list[Holder]:
        return [Holder("train-worker-0", (0, 1), (77,))]

    def look(self) -> None:
        """Do nothing: the tests pass readings of the devices to the watch themselves."""

    def begin(self) -> bool:
        self.begun += 1
        return self.can_begin

    def end(self) -> None:
        self.ended += 1

    def report(self, message: Any) -> None:
        self.sent.append(message)

    def room_changed(self, now: float) -> None:
        self.dispatched += 1

    def see(self, **of_last: Any) -> None:
        """Report four GPUs. The first three are healthy, and the last one has these values."""
        last = DeviceSample(number=3, **of_last)
        self.watch.seen([*(DeviceSample(number=at) for at in range(3)), last])

    def gpus(self) -> float:
        return self.resources.total().get("GPU", 0.0)


def test_a_bad_device_leaves_the_pool_and_comes_back() -> None:
    world = World()
    world.see()
    assert world.gpus() == 4
    world.see(recovery=1)
    assert (world.gpus(), world.dispatched) == (3, 1)
    assert world.resources.devices_left()["GPU"][3] == 0
    assert [(one.number, one.health.state) for one in world.watch.unwell] == [(3, BAD)]
    world.see(recovery=1)
    assert world.dispatched == 1
    world.see(recovery=0)
    assert (world.gpus(), world.watch.unwell) == (4, [])
    assert world.notes == [
        "GPU 3 is bad (reset): its driver says so",
        "GPU 3 is ok",
    ]


def test_what_somebody_closes_is_closed_until_somebody_opens_it() -> None:
    world = World()
    world.see()
    world.watch.close(CloseDevices([0, 2]))
    world.watch.close(CloseDevices([0, 2]))
    assert (world.gpus(), world.dispatched) == (2, 1)
    world.see()
    assert world.gpus() == 2
    world.watch.close(CloseDevices([]))
    assert world.gpus() == 4


def test_who_opens_a_bad_device_says_that_it_is_well() -> None:
    world = World()
    world.see(xids=(79,))
    assert world.gpus() == 3
    world.watch.close(CloseDevices([], [3]))
    assert world.gpus() == 4
    world.see()
    assert (world.gpus(), world.watch.unwell) == (4, [])


def test_an_order_about_a_device_that_was_never_seen_closes_it() -> None:
    world = World()
    world.watch.close(CloseDevices([1], [2]))
    assert world.gpus() == 3


def test_a_reader_that_hangs_is_said_so_ended_and_begun_again_later() -> None:
    world = World()
    world.watch.tick(0.0)
    world.see(recovery=1)
    world.watch.tick(HANGS_AFTER_S - 1)
    assert not world.ended
    world.now = HANGS_AFTER_S
    world.watch.tick(world.now)
    assert world.watch.trouble == "the driver of its GPUs hangs: no answer for 30 s"
    assert (world.begun, world.ended, world.watch.samples) == (1, 1, {})
    assert world.gpus() == 3  # nobody says that it is well
    world.watch.tick(HANGS_AFTER_S + AGAIN_AFTER_S)
    assert world.begun == 2
    world.see()
    assert (bool(world.watch.trouble), world.gpus()) == (False, 4)


def test_where_there_is_nothing_to_read_nothing_hangs() -> None:
    world = World()
    world.can_begin = False
    world.watch.tick(0.0)
    world.watch.tick(1000.0)
    assert (world.watch.trouble, world.ended) == ("", 0)


def test_a_reader_that_ends_says_why() -> None:
    world = World()
    world.watch.tick(0.0)
    world.watch.seen([], "NVML: Driver Not Loaded")
    world.watch.ended("the process that reads them ended")
    assert world.watch.trouble == "its GPUs cannot be read: NVML: Driver Not Loaded"
    world.watch.tick(1.0)
    assert world.begun == 1
    world.watch.tick(AGAIN_AFTER_S)
    assert world.begun == 2


def test_a_reader_that_was_ended_after_a_while_is_begun_again_at_once() -> None:
    world = World()
    world.watch.tick(0.0)
    world.see(busy=0.5)
    world.now = AGAIN_AFTER_S + 1
    world.watch.ended("the process that reads its GPUs ended")
    world.watch.tick(world.now)
    assert world.begun == 2
    world.watch.ended("the process that reads its GPUs ended")
    world.watch.tick(world.now + 1)
    assert world.begun == 2


def test_what_is_not_read_any_more_is_not_shown_as_if_it_were_and_its_holders_are() -> None:
    world = World()
    world.watch.tick(0.0)
    world.see(busy=0.5)
    world.watch.ended("the process that reads its GPUs ended")
    world.watch.tick(1.0)
    world.watch.tick(2.0)
    held = {0: ["train-worker-0"], 1: ["train-worker-0"]}
    assert world.sent[1:] == [DevicesSeen([], held)]
    world.watch.tick(1.0 + LOOK_EVERY_S)
    assert len(world.sent) == 3


def test_errors_that_programs_make_are_noted_and_the_device_stays() -> None:
    world = World()
    world.see(xids=(31,))
    assert (world.gpus(), world.notes) == (4, ["GPU 3: a program on it made the error Xid 31"])


def test_samples_travel_with_the_holders_of_processes_and_devices() -> None:
    world = World()
    mine, other = DeviceProcess(80, 5, (79, 77, 4)), DeviceProcess(90, 6, (4,))
    world.see(xids=(13,), processes=(mine, other))
    (message,) = world.sent
    assert isinstance(message, DevicesSeen)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=DevicesSeen)
    assert again == message
    assert [one.holder for one in message.samples[3].processes] == ["train-worker-0", ""]
    assert message.holders == {0: ["train-worker-0"], 1: ["train-worker-0"]}
    world.is_connected = False
    world.see()
    assert len(world.sent) == 1


def test_use_is_of_devices_that_tell_all_of_it() -> None:
    world = World()
    world.see(busy=0.5, memory_used=1, memory_total=2)
    assert world.watch.use() == {3: (0.5, 1.0, 2.0)}

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.effort import examples
from tests.present import present

from phalanx.scheduler.devices.devices import LowestIndex, take
from phalanx.scheduler.devices.instances import IMPLICIT_PREFIX, Allocation, NodeResources
from phalanx.scheduler.devices.machines import machine
from phalanx.scheduler.devices.quantities import SCALE, to_units
from phalanx.scheduler.devices.sets import ResourceSet

from .test_sets import resources


def gpus(held: Allocation) -> tuple[int, ...]:
    """Return the numbers of the GPUs that are held, including shared ones."""
    return tuple(index for index, _ in held.instances.get("GPU", ()))


@pytest.mark.parametrize(
    ("left", "demand", "taken"),
    [
        ("1 1 1 1", 1, "0:1"),
        ("1 1 1 1", 3, "0:1 1:1 2:1"),
        ("1 1 1 1", 0.3, "0:0.3"),
        ("0 0 1 1", 0.4, "2:0.4"),
        ("0 0 0.6 1", 0.7, "3:0.7"),
        ("0 0 0.6 0.3", 0.3, "3:0.3"),  # exact before roomy
        ("0.5 0.5 0.5", 0.5, "0:0.5"),  # equal: the lowest number
        ("0.5 0.5", 0.75, None),  # two halves are not three quarters of one
        ("0.5 0.5", 1, None),
        ("0.7 1 0.9", 1, "1:1"),
        ("1 0.2 1", 2, "0:1 2:1"),
        ("1 1 1 1 1", 1.5, "0:1 1:0.5"),
        ("1 0.5 0.6", 1.5, "0:1 1:0.5"),
        ("0.5 0.5 1", 1.6, None),
        ("", 0.1, None),
        ("1", 2, None),
    ],
)
def test_taking_from_devices(left: str, demand: float, taken: str | None) -> None:
    devices = {at: to_units(float(word)) for at, word in enumerate(left.split())}
    found = take(devices, to_units(demand), LowestIndex())
    if taken is None:
        assert found is None
    else:
        pairs = [pair.split(":") for pair in taken.split()]
        assert found == tuple((int(index), to_units(float(share))) for index, share in pairs)


def test_all_or_nothing_across_resources() -> None:
    node = NodeResources({"CPU": 4, "GPU": 2, "disk": 1})
    assert node.acquire(resources("1 CPU, 3 GPU")) is None
    assert node.acquire(resources("1 CPU, 1 GPU, 2 disk")) is None
    assert node.available() == {"CPU": 4, "GPU": 2, "disk": 1}


def test_two_shares_of_seventy_leave_no_half_device() -> None:
    node = NodeResources({"GPU": 2})
    for _ in range(2):
        assert node.acquire(resources("0.7 GPU")) is not None
    assert node.available() == {"GPU": pytest.approx(0.6)}
    assert not node.can_now(resources("0.5 GPU"))
    assert node.can_ever(resources("0.5 GPU"))


@pytest.mark.parametrize(
    ("machine_name", "requests", "devices"),
    [
        ("dgx1v", "2 2 2 2", "03 12 47 56"),
        ("dgx1v", "3 3", "023 467"),
        ("k80x8", "1 2 1", "0 23 1"),
        ("pcie8_2socket", "3 3", "012 456"),
        ("a100pcie_bridges", "1 2 2 2 1", "0 23 45 67 1"),
        ("dgx_h100", "1 4 3", "0 4567 123"),
    ],
)
def test_the_topology_chooses_whole_devices(machine_name: str, requests: str, devices: str) -> None:
    node = NodeResources(
        {"GPU": machine(machine_name).device_count}, topology=machine(machine_name)
    )
    got = []
    for count in requests.split():
        allocation = node.acquire(resources(f"{count} GPU"))
        assert allocation is not None
        got.append("".join(map(str, gpus(allocation))))
    assert " ".join(got) == devices


def test_a_share_opens_the_device_that_breaks_least() -> None:
    node = NodeResources({"GPU": 8}, topology=machine("k80x8"))
    first = node.acquire(resources("1 GPU"))
    share = node.acquire(resources("0.5 GPU"))
    assert first is not None and share is not None
    assert (gpus(first), gpus(share)) == ((0,), (1,))


@pytest.mark.parametrize("amount", [1.5, 2.25, 3.0001])
def test_more_than_one_device_is_a_whole_number_of_them(amount: float) -> None:
    node = NodeResources({"GPU": 8})
    for question in (node.acquire, node.can_now, node.can_ever):
        with pytest.raises(ValueError, match="above 1, whole numbers only"):
            question(ResourceSet.from_mapping({"GPU": amount}))


def test_totals_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="whole number of devices"):
        NodeResources({"GPU": 1.5})
    with pytest.raises(ValueError, match="CPU: a resource amount must be 0 or more"):
        NodeResources({"CPU": -1})


class Counted(str):
    """A name that counts how often names are compared to sort them."""

    compared = 0

    def __lt__(self, other: str) -> bool:
        Counted.compared += 1
        return str.__lt__(self, other)


def test_a_node_of_a_thousand_resources_is_not_sorted_for_each_of_them() -> None:
    names = [Counted(f"r{number:04}") for number in range(1000)]
    node = NodeResources(dict.fromkeys(names, 1))
    assert Counted.compared < 20 * len(names)
    node.set_total("CPU", 1)
    assert list(node.total())[:2] == ["CPU", "r0000"]


def test_a_blocked_task_resumes_at_once_and_the_debt_is_reported_as_nothing() -> None:
    node = NodeResources({"CPU": 2})
    blocked = node.acquire(resources("2 CPU"))
    assert blocked is not None
    node.release(blocked)
    other = node.acquire(resources("1 CPU"))
    resumed = node.force_acquire(resources("2 CPU"))
    assert node.available() == {"CPU": 0}
    assert not node.can_now(resources("0.1 CPU"))
    assert other is not None
    node.release(other)
    assert node.available() == {"CPU": 0}
    node.release(resumed)
    assert node.available() == {"CPU": 2}


def test_devices_are_never_taken_by_force() -> None:
    with pytest.raises(ValueError, match="never taken by force"):
        NodeResources({"GPU": 1}).force_acquire(resources("1 GPU"))


def test_giving_back_twice_is_refused_and_changes_nothing() -> None:
    node = NodeResources({"CPU": 2, "GPU": 2})
    held = node.acquire(resources("1 CPU, 1 GPU"))
    assert held is not None
    node.release(held)
    with pytest.raises(ValueError, match="given back twice"):
        node.release(held)
    assert node.available() == {"CPU": 2, "GPU": 2}
    with pytest.raises(ValueError, match="given back twice"):
        node.release(Allocation(resources=resources("1 CPU")))


class TestCapacityChangedAtRunTime:
    def test_a_decrease_below_what_is_taken_leaves_a_backlog(self) -> None:
        node = NodeResources({"CPU": 4})
        held = [node.acquire(resources("1 CPU")) for _ in range(3)]
        node.set_total("CPU", 1)
        seen = [node.available()["CPU"]]
        for one in held:
            assert one is not None
            node.release(one)
            seen.append(node.available()["CPU"])
        assert seen == [0, 0, 0, 1]

    def test_free_devices_with_the_highest_numbers_leave_first(self) -> None:
        node = NodeResources({"GPU": 4})
        node.set_total("GPU", 2)
        held = node.acquire(resources("2 GPU"))
        assert held is not None and gpus(held) == (0, 1)

    def test_whichever_device_comes_free_first_leaves(self) -> None:
        node = NodeResources({"GPU": 2})
        first, second = node.acquire(resources("1 GPU")), node.acquire(resources("1 GPU"))
        node.set_total("GPU", 1)
        assert first is not None and second is not None
        node.release(first)
        assert node.available() == {"GPU": 0}
        assert node.acquire(resources("0.5 GPU")) is None
        node.release(second)
        again = node.acquire(resources("1 GPU"))
        assert again is not None and gpus(again) == (1,)

    def test_an_increase_brings_back_the_lowest_missing_number(self) -> None:
        node = NodeResources({"GPU": 3})
        first = node.acquire(resources("1 GPU"))
        rest = node.acquire(resources("2 GPU"))
        node.set_total("GPU", 2)
        assert first is not None and rest is not None
        node.release(first)  # device 0 leaves
        node.set_total("GPU", 3)
        again = node.acquire(resources("1 GPU"))
        assert again is not None and gpus(again) == (0,)

    def test_a_resource_set_to_zero_is_gone(self) -> None:
        node = NodeResources({"CPU": 1, "disk": 2})
        node.set_total("disk", 0)
        assert node.total() == {"CPU": 1}
        assert not node.can_ever(resources("1 disk"))
        node.set_total("tape", 3)
        assert node.can_now(resources("3 tape"))


class TestClosedDevices:
    def test_the_total_shrinks_by_that_exact_device(self) -> None:
        node = NodeResources({"GPU": 4})
        assert node.close("GPU", frozenset({1}))
        assert node.total() == node.available() == {"GPU": 3}
        assert node.devices_left() == {"GPU": [SCALE, 0, SCALE, SCALE]}
        held = node.acquire(resources("3 GPU"))
        assert held is not None and gpus(held) == (0, 2, 3)
        assert not node.can_now(resources("4 GPU"))
        assert node.can_ever(resources("4 GPU")), "it waits until that one is open again"
        assert not node.can_ever(resources("5 GPU"))

    def test_who_holds_it_keeps_it_and_it_is_not_given_again(self) -> None:
        node = NodeResources({"GPU": 2})
        held = present(node.acquire(resources("1 GPU")))
        node.close("GPU", frozenset({0}))
        assert node.total() == node.available() == {"GPU": 1}
        node.release(held)
        assert node.available() == {"GPU": 1}
        assert gpus(present(node.acquire(resources("1 GPU")))) == (1,)
        assert not node.can_now(resources("0.5 GPU"))

    def test_it_comes_back(self) -> None:
        node = NodeResources({"GPU": 2})
        node.close("GPU", frozenset({0, 1}))
        assert node.total() == {}
        assert not node.close("GPU", frozenset({0, 1}))
        node.close("GPU", frozenset({1}))
        assert gpus(present(node.acquire(resources("1 GPU")))) == (0,)

    def test_a_total_that_is_set_counts_it(self) -> None:
        node = NodeResources({"GPU": 4})
        node.close("GPU", frozenset({1}))
        node.set_total("GPU", 3)
        assert node.total() == {"GPU": 2}
        node.close("GPU", frozenset())
        assert node.total() == {"GPU": 3}


def test_the_implicit_resource_is_on_every_node_once() -> None:
    node = NodeResources({"CPU": 1})
    asked = ResourceSet.from_mapping({IMPLICIT_PREFIX + "x": 0.6})
    assert node.can_ever(asked)
    held = node.acquire(asked)
    assert held is not None and node.acquire(asked) is None
    node.release(held)
    assert node.can_now(asked)


REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "CPU": st.integers(1, 3 * SCALE),
        "GPU": st.one_of(st.integers(1, SCALE), st.integers(1, 5).map(lambda n: n * SCALE)),
        "memory": st.integers(1, 10**9),
    },
).map(ResourceSet)


class NodeLife(RuleBasedStateMachine):
    """Checks that nothing is ever given out twice, while work comes and goes and totals change."""

    @initialize(name=st.sampled_from(["k80x8", "dgx1v", None]))
    def start(self, name: str | None) -> None:
        wiring = machine(name) if name else None
        self.totals = {"CPU": 4, "GPU": 8, "memory": 10**5}
        self.node = NodeResources(self.totals, topology=wiring)
        self.held: list[Allocation] = []
        self.closed: frozenset[int] = frozenset()

    @rule(request=REQUESTS)
    def acquire(self, request: ResourceSet) -> None:
        before = self.node.available()
        can = self.node.can_now(request)
        allocation = self.node.acquire(request)
        assert (allocation is not None) is can
        if allocation is None:
            assert self.node.available() == before
        else:
            assert self.node.can_ever(request)
            self.held.append(allocation)
            self._check_shape(allocation)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.held:
            self.node.release(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    @rule(request=REQUESTS)
    def release_undoes_acquire(self, request: ResourceSet) -> None:
        before = self.node.available()
        allocation = self.node.acquire(request)
        if allocation is not None:
            self.node.release(allocation)
        assert self.node.available() == before

    @rule(name=st.sampled_from(["CPU", "GPU"]), total=st.integers(0, 8))
    def resize(self, name: str, total: int) -> None:
        self.node.set_total(name, total)
        self.totals[name] = total

    @rule(closed=st.frozensets(st.integers(0, 9), max_size=8))
    def close(self, closed: frozenset[int]) -> None:
        assert self.node.close("GPU", closed) == (closed != self.closed)
        self.closed = closed

    @invariant()
    def nothing_is_over_allocated(self) -> None:
        if not hasattr(self, "node"):
            return
        on_device: dict[int, int] = {}
        for allocation in self.held:
            for index, units in allocation.instances.get("GPU", ()):
                on_device[index] = on_device.get(index, 0) + units
        assert all(units <= SCALE for units in on_device.values())
        for name, total in self.totals.items():
            used = sum(allocation.resources.get(name, 0) for allocation in self.held)
            if name == "GPU":
                assert total - len(self.closed) <= self.node.total().get("GPU", 0) <= total
                total = int(self.node.total().get("GPU", 0))
                used = sum(units for at, units in on_device.items() if at not in self.closed)
            free = self.node.available().get(name, 0)
            assert free == max(0, total * SCALE - used) / SCALE
        left = self.node.devices_left().get("GPU", [])
        assert sum(left) >= round(self.node.available().get("GPU", 0) * SCALE)
        if self.totals["GPU"] == len(left) == 8:
            assert not any(left[at] for at in self.closed if at < 8)

    def _check_shape(self, allocation: Allocation) -> None:
        asked = allocation.resources.get("GPU", 0)
        devices = allocation.instances.get("GPU", ())
        assert sum(units for _, units in devices) == asked
        assert self.closed.isdisjoint(at for at, _ in devices)
        if 0 < asked < SCALE:
            assert len(devices) == 1
        else:
            assert all(units == SCALE for _, units in devices)


NodeLife.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestNodeLife = NodeLife.TestCase


@given(st.lists(st.integers(0, SCALE), max_size=8), st.integers(1, 3 * SCALE))
def test_a_fraction_never_straddles_devices(left: list[int], demand: int) -> None:
    found = take(dict(enumerate(left)), demand, LowestIndex())
    if found is not None:
        assert sum(units for _, units in found) == demand
        assert all(0 < units <= left[index] for index, units in found)
        assert sum(units < SCALE for _, units in found) <= 1


class OnlyEights:
    """A chooser that works only for nodes with eight devices."""

    def pick(self, free: Sequence[int], count: int) -> tuple[int, ...]:
        assert all(number < 8 for number in free)
        return tuple(free[-count:])


def test_the_wiring_of_gpus_says_nothing_of_other_devices() -> None:
    numbered = frozenset({"GPU", "TPU"})
    node = NodeResources({"GPU": 8, "TPU": 16}, numbered, topology=OnlyEights())
    held = present(node.acquire(ResourceSet.from_mapping({"GPU": 2, "TPU": 2})))
    assert [index for index, _ in held.instances["TPU"]] == [0, 1]
    assert sorted(gpus(held)) == [6, 7]

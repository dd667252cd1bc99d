"""Placement groups on one node: creation, use, removal, and what is refused."""

from __future__ import annotations

import pickle
import threading

import pytest


@pytest.fixture
def pgs(part, ray):
    return part("util.placement_group")


@pytest.fixture
def group(pgs):
    """Makes placement groups that are removed when the behaviour ends."""
    made = []

    def make(bundles, **options):
        made.append(pgs.placement_group(bundles, **options))
        return made[-1]

    yield make
    for one in made:
        pgs.remove_placement_group(one)


@pytest.fixture
def inside(part):
    return part("util.scheduling_strategies").PlacementGroupSchedulingStrategy


@pytest.fixture
def where(ray):
    @ray.remote
    def where():
        return ray.get_runtime_context().get_placement_group_id()

    return where


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
def test_a_group_becomes_ready(get, group, strategy):
    one = group([{"CPU": 1}, {"CPU": 1}], strategy=strategy)
    assert one.wait(30) is True
    get(one.ready())


def test_ready_is_a_ref(ray, group):
    one = group([{"CPU": 1}])
    ref = one.ready()
    assert isinstance(ref, ray.ObjectRef)
    assert ray.wait([ref], timeout=120) == ([ref], [])


def test_a_group_tells_its_bundles(ray, group):
    one = group([{"CPU": 1}, {"CPU": 0.5, "GPU": 1}])
    one.wait(30)
    assert one.bundle_specs == [{"CPU": 1}, {"CPU": 0.5, "GPU": 1}]
    assert one.bundle_count == 2
    assert not one.is_empty
    assert isinstance(one.id, ray.PlacementGroupID)


def test_the_empty_group(pgs):
    empty = pgs.PlacementGroup.empty()
    assert empty.is_empty
    assert empty.id.is_nil()


def test_bundles_are_reserved(ray, group, eventually):
    one = group([{"CPU": 1, "custom": 0.5}, {"CPU": 2}])
    one.wait(30)
    eventually(lambda: ray.available_resources().get("CPU") == 1)
    assert ray.available_resources()["custom"] == 1.5
    assert ray.cluster_resources()["CPU"] == 4


def test_removal_gives_the_resources_back(ray, pgs, eventually):
    one = pgs.placement_group([{"CPU": 4}])
    one.wait(30)
    eventually(lambda: "CPU" not in ray.available_resources())
    assert pgs.remove_placement_group(one) is None
    eventually(lambda: ray.available_resources().get("CPU") == 4)


def test_removal_twice_does_nothing(pgs, group):
    one = group([{"CPU": 1}])
    one.wait(30)
    pgs.remove_placement_group(one)
    pgs.remove_placement_group(one)


def test_a_group_that_can_never_fit_is_pending(pgs, group):
    one = group([{"CPU": 100}])
    assert one.wait(0.1) is False
    assert pgs.placement_group_table(one)["state"] == "PENDING"


def test_strict_spread_needs_as_many_nodes(group):
    assert group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD").wait(0.1) is False
    assert group([{"CPU": 1}], strategy="STRICT_SPREAD").wait(30) is True


def test_a_group_is_all_or_nothing(ray, group, pgs, eventually):
    first = group([{"CPU": 3}])
    first.wait(30)
    second = group([{"CPU": 1}, {"CPU": 1}])
    assert second.wait(0.1) is False
    eventually(lambda: ray.available_resources().get("CPU") == 1)
    pgs.remove_placement_group(first)
    assert second.wait(30) is True


def test_a_task_runs_inside_a_group(get, group, inside, where):
    one = group([{"CPU": 1}])
    ref = where.options(scheduling_strategy=inside(one)).remote()
    assert get(ref) == one.id.hex()


def test_a_task_runs_inside_a_chosen_bundle(ray, get, group, inside):
    @ray.remote(num_cpus=0, num_gpus=1)
    def devices():
        return len(ray.get_gpu_ids())

    one = group([{"CPU": 1}, {"GPU": 1}])
    ref = devices.options(scheduling_strategy=inside(one, 1)).remote()
    assert get(ref) == 1


def test_a_task_outside_is_in_no_group(get, group, where):
    group([{"CPU": 1}]).wait(30)
    assert get(where.remote()) is None


def test_the_older_options_mean_the_same(get, group, where):
    one = group([{"CPU": 1}])
    options = {"placement_group": one, "placement_group_bundle_index": 0}
    assert get(where.options(**options).remote()) == one.id.hex()


def test_a_task_submitted_before_the_group_is_ready_waits(get, group, pgs, inside, where):
    first = group([{"CPU": 4}])
    first.wait(30)
    second = group([{"CPU": 2}])
    ref = where.options(scheduling_strategy=inside(second)).remote()
    pgs.remove_placement_group(first)
    assert get(ref) == second.id.hex()


def test_tasks_share_a_bundle_no_further_than_it_reaches(ray, get, group, inside, gate, eventually):
    @ray.remote
    def hold():
        gate.enter()

    one = group([{"CPU": 2}])
    options = {"scheduling_strategy": inside(one, 0)}
    refs = [hold.options(**options).remote() for _ in range(3)]
    eventually(lambda: gate.entered() == 2)
    assert ray.wait(refs, timeout=0.1)[0] == []
    gate.open()
    get(refs)


def test_a_reserved_cpu_is_not_for_others(ray, get, group, where, pgs):
    one = group([{"CPU": 4}])
    one.wait(30)
    outside = where.remote()
    assert ray.wait([outside], timeout=0.1)[0] == []
    pgs.remove_placement_group(one)
    assert get(outside) is None


def test_an_actor_lives_inside_a_group(ray, get, group, inside):
    @ray.remote(num_cpus=1)
    class Plain:
        def where(self):
            return ray.get_runtime_context().get_placement_group_id()

    one = group([{"CPU": 1}])
    actor = Plain.options(scheduling_strategy=inside(one)).remote()
    assert get(actor.where.remote()) == one.id.hex()


def test_children_leave_the_group_by_default(ray, get, group, inside, where):
    @ray.remote
    def parent():
        return ray.get(where.remote())

    one = group([{"CPU": 2}])
    assert get(parent.options(scheduling_strategy=inside(one)).remote()) is None


def test_children_of_an_actors_threads_stay_in_the_group_too(ray, get, group, inside, where):
    @ray.remote
    class Parent:
        def child(self):
            found = []
            thread = threading.Thread(target=lambda: found.append(where.remote()))
            thread.start()
            thread.join()
            return ray.get(found[0])

    one = group([{"CPU": 1}, {"CPU": 1}])
    strategy = inside(one, placement_group_capture_child_tasks=True)
    actor = Parent.options(num_cpus=1, scheduling_strategy=strategy).remote()
    assert get(actor.child.remote()) == one.id.hex()


def test_children_of_a_tasks_threads_do_not(ray, get, group, inside, where):
    @ray.remote
    def parent():
        found = []
        thread = threading.Thread(target=lambda: found.append(where.remote()))
        thread.start()
        thread.join()
        return ray.get(found[0])

    one = group([{"CPU": 1}])
    strategy = inside(one, placement_group_capture_child_tasks=True)
    assert get(parent.options(scheduling_strategy=strategy).remote()) is None


def test_children_stay_in_the_group_when_captured(ray, get, group, inside, where):
    @ray.remote
    def parent():
        return ray.get(where.remote())

    one = group([{"CPU": 2}])
    strategy = inside(one, placement_group_capture_child_tasks=True)
    assert get(parent.options(scheduling_strategy=strategy).remote()) == one.id.hex()


def test_a_group_is_named_in_one_of_two_ways(ray, group, inside, where):
    one = group([{"CPU": 1}])
    with pytest.raises(ValueError, match="should be specified via"):
        where.options(scheduling_strategy=inside(one), placement_group=one)
    with pytest.raises(ValueError, match="should be specified via"):
        ray.remote(scheduling_strategy=inside(one))(lambda: 1).options(placement_group=one)


def test_a_task_knows_its_current_group(ray, get, group, inside, pgs):
    @ray.remote
    def current():
        return pgs.get_current_placement_group()

    one = group([{"CPU": 1}])
    again = get(current.options(scheduling_strategy=inside(one)).remote())
    assert again.id == one.id
    assert pgs.get_current_placement_group() is None


def test_a_group_can_be_passed_to_a_task(ray, get, group, inside, where):
    @ray.remote(num_cpus=0)
    def use(one):
        return ray.get(where.options(scheduling_strategy=inside(one)).remote())

    one = group([{"CPU": 1}])
    assert get(use.remote(one)) == one.id.hex()


def test_the_table_of_one_group(home, group, pgs):
    one = group([{"CPU": 1}, {"GPU": 1}], strategy="SPREAD", name="tabled")
    one.wait(30)
    row = pgs.placement_group_table(one)
    assert row["placement_group_id"] == one.id.hex()
    assert row["name"] == "tabled"
    assert row["strategy"] == "SPREAD"
    assert row["state"] == "CREATED"
    assert row["bundles"] == {0: {"CPU": 1}, 1: {"GPU": 1}}
    assert set(row["bundles_to_node_id"].values()) == {home}


def test_the_table_of_all_groups(group, pgs):
    one, two = group([{"CPU": 1}]), group([{"CPU": 1}])
    assert {one.id.hex(), two.id.hex()} <= set(pgs.placement_group_table())


def test_the_table_remembers_a_removed_group(group, pgs, eventually):
    one = group([{"CPU": 1}])
    one.wait(30)
    pgs.remove_placement_group(one)
    eventually(lambda: pgs.placement_group_table(one)["state"] == "REMOVED")


def test_a_group_is_found_by_name(group, pgs):
    one = group([{"CPU": 1}], name="by_name")
    one.wait(30)
    assert pgs.get_placement_group("by_name").id == one.id


@pytest.mark.parametrize("name", ["nobody", ""])
def test_an_absent_name_of_a_group_is_refused(ray, pgs, name):
    with pytest.raises(ValueError):
        pgs.get_placement_group(name)


@pytest.mark.parametrize(
    "bundles",
    [[], [{}], [{"CPU": 0}], [{"CPU": 1}, {"CPU": 0}], [1], [{"CPU": "1"}], {"CPU": 1}, "x", None],
    ids=str,
)
def test_wrong_bundles_are_refused(pgs, bundles):
    with pytest.raises(ValueError):
        pgs.placement_group(bundles)


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "BOGUS"},
        {"lifetime": "for ever"},
        {"_soft_target_node_id": "ff"},
        {"strategy": "STRICT_PACK", "_soft_target_node_id": "no hex"},
        {"bundle_label_selector": [{"a": "b"}, {"a": "b"}]},
    ],
    ids=str,
)
def test_wrong_options_of_a_group_are_refused(pgs, options):
    with pytest.raises(ValueError):
        pgs.placement_group([{"CPU": 1}], **options)


@pytest.mark.parametrize("index", [2, -2])
def test_a_bundle_index_out_of_range_is_refused(group, inside, where, index):
    one = group([{"CPU": 1}, {"CPU": 1}])
    with pytest.raises(ValueError, match="index"):
        where.options(scheduling_strategy=inside(one, index)).remote()


@pytest.mark.parametrize("options", [{"num_cpus": 2}, {"resources": {"custom": 1}}], ids=str)
def test_a_request_that_fits_no_bundle_is_refused(group, inside, where, options):
    one = group([{"CPU": 1}, {"CPU": 1}])
    with pytest.raises(ValueError, match="cannot fit into any bundles"):
        where.options(scheduling_strategy=inside(one), **options).remote()


def test_removal_fails_the_tasks_that_wait_for_it(
    ray, pgs, group, inside, get, gate, eventually, errors
):
    @ray.remote(max_retries=0)
    def hold():
        gate.enter()

    one = group([{"CPU": 1}])
    options = {"scheduling_strategy": inside(one)}
    running = hold.options(**options).remote()
    eventually(lambda: gate.entered() == 1)
    waiting = hold.options(**options).remote()
    pgs.remove_placement_group(one)
    for ref in (running, waiting):
        with pytest.raises(errors.RayError):
            get(ref)
    assert gate.entered() == 1


def test_removal_ends_the_actors_inside(ray, pgs, group, inside, get, errors, is_over):
    @ray.remote(num_cpus=1)
    class Plain:
        def ping(self):
            return "pong"

    one = group([{"CPU": 1}])
    actor = Plain.options(scheduling_strategy=inside(one)).remote()
    assert get(actor.ping.remote()) == "pong"
    pgs.remove_placement_group(one)
    is_over(actor.ping, errors.RayActorError)


def test_ready_of_a_removed_group_fails(pgs, group, get, errors):
    one = group([{"CPU": 1}])
    one.wait(30)
    pgs.remove_placement_group(one)
    with pytest.raises(errors.TaskPlacementGroupRemoved):
        get(one.ready())


def test_a_strategy_with_no_group_is_in_none(ray, get, part):
    strategies = part("util.scheduling_strategies")

    @ray.remote
    def where():
        return part_of(ray)

    def part_of(module):
        return module.get_runtime_context().get_placement_group_id()

    strategy = strategies.PlacementGroupSchedulingStrategy(placement_group=None)
    assert get(where.options(scheduling_strategy=strategy).remote()) is None


def test_waiting_for_a_group_that_another_handle_has_removed_raises(pgs, group, eventually):
    one = group([{"CPU": 1}])
    eventually(lambda: pgs.placement_group_table(one)["state"] == "CREATED")
    pgs.remove_placement_group(pickle.loads(pickle.dumps(one)))
    eventually(lambda: pgs.placement_group_table(one)["state"] == "REMOVED")
    with pytest.raises(Exception, match=r"exist|removed"):
        one.wait(30)


def test_waiting_for_a_removed_group_raises(pgs, group, eventually):
    one, other = group([{"CPU": 1}]), group([{"CPU": 1}])
    assert other.wait(30) is True
    eventually(lambda: pgs.placement_group_table(one)["state"] == "CREATED")
    for each in (one, other):
        pgs.remove_placement_group(each)
        eventually(lambda each=each: pgs.placement_group_table(each)["state"] == "REMOVED")
        with pytest.raises(Exception, match=r"exist|removed"):
            each.wait(30)

"""Scheduling strategies and label selectors on a cluster of one node."""

from __future__ import annotations

import pytest


@pytest.fixture
def strategies(part):
    return part("util.scheduling_strategies")


@pytest.fixture
def here(home):
    return home


@pytest.fixture
def nowhere(ray):
    return ray.NodeID.from_random().hex()


@pytest.fixture
def where(ray):
    @ray.remote
    def where():
        return ray.get_runtime_context().get_node_id()

    return where


@pytest.fixture
def actor_where(ray):
    @ray.remote
    class Where:
        def where(self):
            return ray.get_runtime_context().get_node_id()

    return Where


@pytest.mark.parametrize("strategy", ["DEFAULT", "SPREAD"])
def test_named_strategies_place_tasks_and_actors(get, where, actor_where, here, strategy):
    options = {"scheduling_strategy": strategy}
    assert get(where.options(**options).remote()) == here
    assert get(actor_where.options(**options).remote().where.remote()) == here


@pytest.mark.parametrize("soft", [True, False])
def test_affinity_to_this_node(get, where, actor_where, strategies, here, soft):
    options = {"scheduling_strategy": strategies.NodeAffinitySchedulingStrategy(here, soft)}
    assert get(where.options(**options).remote()) == here
    assert get(actor_where.options(**options).remote().where.remote()) == here


def test_hard_affinity_to_a_missing_node_fails_a_task(get, where, strategies, nowhere, errors):
    strategy = strategies.NodeAffinitySchedulingStrategy(nowhere, soft=False)
    with pytest.raises(errors.TaskUnschedulableError):
        get(where.options(scheduling_strategy=strategy).remote())


def test_hard_affinity_to_a_missing_node_fails_an_actor(
    get, actor_where, strategies, nowhere, errors
):
    strategy = strategies.NodeAffinitySchedulingStrategy(nowhere, soft=False)
    actor = actor_where.options(scheduling_strategy=strategy).remote()
    with pytest.raises(errors.ActorUnschedulableError):
        get(actor.where.remote())


def test_a_label_that_is_a_nodes_id_binds_like_a_hard_affinity(
    get, where, actor_where, here, nowhere, errors
):
    assert get(where.options(label_selector={"ray.io/node-id": here}).remote()) == here
    missing = {"label_selector": {"ray.io/node-id": nowhere}}
    with pytest.raises(errors.TaskUnschedulableError):
        get(where.options(**missing).remote())
    with pytest.raises(errors.ActorUnschedulableError):
        get(actor_where.options(**missing).remote().where.remote())


def test_hard_affinity_to_a_node_that_is_too_small_fails(get, where, strategies, here, errors):
    strategy = strategies.NodeAffinitySchedulingStrategy(here, soft=False)
    with pytest.raises(errors.TaskUnschedulableError, match="not_there"):
        get(where.options(scheduling_strategy=strategy, resources={"not_there": 1}).remote())


def test_soft_affinity_to_a_missing_node_goes_elsewhere(get, where, strategies, here, nowhere):
    strategy = strategies.NodeAffinitySchedulingStrategy(nowhere, soft=True)
    assert get(where.options(scheduling_strategy=strategy).remote()) == here


def test_affinity_to_a_busy_node_waits(ray, get, where, strategies, here, gate, eventually):
    @ray.remote(num_cpus=4)
    def hold():
        gate.enter()

    blocker = hold.remote()
    eventually(lambda: gate.entered() == 1)
    strategy = strategies.NodeAffinitySchedulingStrategy(here, soft=False)
    ref = where.options(scheduling_strategy=strategy).remote()
    assert ray.wait([ref], timeout=0.1)[0] == []
    gate.open()
    get(blocker)
    assert get(ref) == here


def test_affinity_needs_a_node_id(strategies):
    with pytest.raises(ValueError):
        strategies.NodeAffinitySchedulingStrategy("no hex", soft=False)


def test_affinity_needs_to_know_whether_it_is_soft(strategies, here):
    with pytest.raises(TypeError):
        strategies.NodeAffinitySchedulingStrategy(here)


def test_affinity_refuses_contradictions(strategies, here):
    affinity = strategies.NodeAffinitySchedulingStrategy
    with pytest.raises(ValueError):
        affinity(here, soft=False, _spill_on_unavailable=True)
    with pytest.raises(ValueError):
        affinity(here, soft=True, _fail_on_unavailable=True)


def test_labels_choose_this_node(get, where, strategies, here):
    by_label = strategies.NodeLabelSchedulingStrategy
    chosen = [
        by_label(hard={"ray.io/node-id": strategies.In(here)}),
        by_label(hard={"unheard_of": strategies.NotIn("x")}),
        by_label(hard={"unheard_of": strategies.DoesNotExist()}),
        by_label(hard={"ray.io/node-id": strategies.Exists()}),
        by_label(hard={}, soft={"unheard_of": strategies.In("x")}),
    ]
    refs = [where.options(scheduling_strategy=strategy).remote() for strategy in chosen]
    assert get(refs) == [here] * len(chosen)


def test_a_hard_label_that_no_node_has_does_not_run(ray, where, strategies):
    strategy = strategies.NodeLabelSchedulingStrategy(hard={"unheard_of": strategies.Exists()})
    with pytest.raises(ray.exceptions.RayError):
        ray.get(where.options(scheduling_strategy=strategy).remote(), timeout=0.5)


@pytest.mark.parametrize("hard", [{}, {"a": "b"}, 1], ids=str)
def test_wrong_labels_are_refused(strategies, hard):
    with pytest.raises(ValueError):
        strategies.NodeLabelSchedulingStrategy(hard)


def test_in_needs_a_value(strategies):
    with pytest.raises(ValueError):
        strategies.NodeLabelSchedulingStrategy({"a": strategies.In()})


@pytest.mark.parametrize("selector", ["!x", "!in(x,y)"])
def test_a_negative_selector_matches_a_node_without_the_label(get, where, here, selector):
    options = {"label_selector": {"unheard_of": selector}}
    assert get(where.options(**options).remote()) == here


def test_a_selector_by_node_id(get, where, actor_where, here):
    options = {"label_selector": {"ray.io/node-id": here}}
    assert get(where.options(**options).remote()) == here
    assert get(actor_where.options(**options).remote().where.remote()) == here


def test_a_selector_that_no_node_matches_does_not_run(ray, where):
    with pytest.raises(ray.exceptions.RayError):
        ray.get(where.options(label_selector={"unheard_of": "x"}).remote(), timeout=0.5)


def test_fallback_selectors_are_tried_in_order(get, where, here):
    options = {
        "label_selector": {"unheard_of": "x"},
        "fallback_strategy": [
            {"label_selector": {"unheard_of": "y"}},
            {"label_selector": {"ray.io/node-id": here}},
        ],
    }
    assert get(where.options(**options).remote()) == here

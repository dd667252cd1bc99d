"""Calls that are bound into a graph now and run by `execute` later."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def dag(engine):
    return importlib.import_module("ray.dag" if engine == "ray" else "phalanx.objects.dag")


@pytest.fixture
def add(ray):
    @ray.remote
    def add(a, b=1):
        return a + b

    return add


@pytest.fixture
def total(ray):
    @ray.remote(num_cpus=0)
    class Total:
        def __init__(self, value):
            self.value = value

        def add(self, amount):
            self.value += amount
            return self.value

    return Total


def test_a_graph_of_functions(get, add):
    one = add.bind(0)
    three = add.bind(one, b=add.options(num_cpus=0.5).bind(one))
    assert get(three.execute()) == 3


def test_a_node_runs_once_in_an_execution(get, total, dag):
    actor = total.remote(0)
    once = actor.add.bind(1)
    assert get(dag.MultiOutputNode([once, once]).execute()) == [1, 1]
    assert get(once.execute()) == 2


def test_an_execution_makes_actors_anew_and_keeps_their_calls_in_order(get, add, total):
    actor = total.bind(10)
    actor.add.bind(1)
    last = actor.add.options(num_returns=1).bind(2)
    assert [get(add.bind(last, 0).execute()) for _ in range(2)] == [13, 13]


def test_a_graph_has_an_input(get, add, dag):
    with dag.InputNode() as given:
        graph = add.bind(add.bind(given), given)
    assert [get(graph.execute(n)) for n in (1, 2)] == [3, 5]
    with pytest.raises(TypeError, match="one value"):
        graph.execute(1, 2)


def test_a_graph_takes_parts_of_its_input(get, add, dag):
    with dag.InputNode() as given:
        by_key = add.bind(given["x"], given["y"])
        by_place = add.bind(given[0], given.y)
        by_attribute = add.bind(given.real, 1)
    assert get(by_key.execute({"x": 1, "y": 2})) == 3
    assert get(by_place.execute(1, y=5)) == 6
    assert get(by_attribute.execute(4)) == 5


def test_nodes_inside_containers(ray, get, add):
    @ray.remote
    def total_of(refs, more):
        return sum(ray.get(refs)) + ray.get(more["key"])

    assert get(total_of.bind([add.bind(0), add.bind(1)], {"key": add.bind(2)}).execute()) == 6


@pytest.mark.phalanx_only("there are no compiled graphs")
def test_graphs_are_not_compiled(add):
    with pytest.raises(NotImplementedError, match="no compiled graphs"):
        add.bind(1).experimental_compile()

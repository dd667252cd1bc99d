"""Handles: passing them on, comparing, copying, and what they refuse."""

from __future__ import annotations

import pytest


def test_calling_a_method_directly_is_refused(counter):
    actor = counter.remote()
    with pytest.raises(TypeError, match="remote"):
        actor.add()


def test_an_unknown_method_is_an_attribute_error(counter):
    actor = counter.remote()
    with pytest.raises(AttributeError):
        actor.missing


def test_an_actor_handle_can_be_passed_to_a_task(ray, counter, get):
    @ray.remote
    def use(handle):
        return ray.get(handle.add.remote(5))

    actor = counter.remote()
    assert get(use.remote(actor)) == 5
    assert get(actor.read.remote()) == 5


def test_an_actor_handle_can_be_passed_inside_a_container(ray, counter, get):
    @ray.remote
    def use(handles):
        return sum(ray.get([h.add.remote(1) for h in handles]))

    assert get(use.remote([counter.remote(1), counter.remote(2)])) == 5


def test_an_actor_handle_can_be_put_and_returned(ray, counter, get):
    actor = counter.remote(3)
    assert get(get(ray.put(actor)).read.remote()) == 3

    @ray.remote
    def make():
        return counter.remote(4)

    assert get(get(make.remote()).read.remote()) == 4


def test_an_actor_makes_another_of_its_class(ray, get):
    @ray.remote(num_cpus=0)
    class Parent:
        def child(self):
            self.made = Parent.remote()
            return self.made

        def ping(self):
            return "pong"

    parent = Parent.remote()
    assert get(get(parent.child.remote()).ping.remote()) == "pong"


def test_an_actor_passes_its_own_handle(ray, get):
    @ray.remote
    class Self:
        def __init__(self):
            self.me = ray.get_runtime_context().current_actor

        def handle(self):
            return self.me

        def ping(self):
            return "pong"

    actor = Self.remote()
    assert get(get(actor.handle.remote()).ping.remote()) == "pong"


def test_handles_of_one_actor_are_equal(ray, counter, get):
    @ray.remote
    def same(a, b):
        return a == b

    one, two = counter.remote(), counter.remote()
    assert get(same.remote(one, one))
    assert not get(same.remote(one, two))


def test_a_property_is_not_reachable_through_a_handle(ray):
    @ray.remote
    class Plain:
        @property
        def value(self):
            return 5

    actor = Plain.remote()
    with pytest.raises(AttributeError):
        actor.value


def test_a_handle_shows_its_class_and_id(counter):
    actor = counter.remote()
    assert "Counter" in repr(actor)
    assert actor._actor_id.hex() in repr(actor)


def test_a_handle_can_be_copied_and_pickled(counter, get):
    import copy
    import pickle

    actor = counter.remote()
    for again in (copy.copy(actor), copy.deepcopy(actor), pickle.loads(pickle.dumps(actor))):
        assert again == actor
        assert hash(again) == hash(actor)
    assert get(again.add.remote()) == 1


def test_a_handle_is_not_a_ref(ray, counter):
    actor = counter.remote()
    with pytest.raises(ValueError):
        ray.get(actor)
    with pytest.raises(ValueError):
        ray.get(actor.add)
    with pytest.raises(TypeError):
        ray.wait([actor])

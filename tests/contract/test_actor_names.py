"""Named actors: look-up, namespaces, uniqueness, detached life."""

from __future__ import annotations

import pytest


@pytest.fixture
def named(ray, request):
    """Return a function that makes an actor. All the actors that it made are ended after the
    test.
    """

    @ray.remote
    class Named:
        def __init__(self, value=0):
            self.value = value

        def add(self):
            self.value += 1
            return self.value

        def pid(self):
            import os

            return os.getpid()

    made = []

    def make(*args, **options):
        made.append(Named.options(**options).remote(*args))
        return made[-1]

    yield make
    for actor in made:
        ray.kill(actor)


def test_get_actor_finds_the_actor_by_name(ray, get, named):
    actor = named(name="found")
    get(actor.add.remote())
    assert get(ray.get_actor("found").add.remote()) == 2


def test_a_task_finds_a_named_actor(ray, get, named):
    @ray.remote
    def use():
        return ray.get(ray.get_actor("shared").add.remote())

    actor = named(10, name="shared")
    assert get(use.remote()) == 11
    assert get(actor.add.remote()) == 12


def test_an_absent_name_is_refused(ray):
    with pytest.raises(ValueError, match="nobody"):
        ray.get_actor("nobody")


def test_an_empty_name_is_refused(ray):
    with pytest.raises(ValueError):
        ray.get_actor("")


@pytest.mark.parametrize("name", [1, ""])
def test_an_actor_may_have_no_such_name(ray, name):
    @ray.remote
    class Named:
        pass

    with pytest.raises(ValueError if name == "" else TypeError):
        Named._remote(name=name)


def test_an_empty_namespace_is_refused(ray):
    with pytest.raises(ValueError):
        ray.get_actor("name", namespace="")


def test_a_namespace_that_is_no_text_is_refused(ray):
    with pytest.raises(TypeError):
        ray.get_actor("name", namespace=1)


def test_a_name_is_unique(ray, get, named, errors):
    get(named(name="unique").add.remote())
    with pytest.raises(ValueError, match="unique") as caught:
        named(name="unique")
    assert isinstance(caught.value, errors.ActorAlreadyExistsError)


def test_a_name_is_unique_within_its_namespace_only(ray, get, named):
    get(named(1, name="both", namespace="left").add.remote())
    get(named(10, name="both", namespace="right").add.remote())
    assert get(ray.get_actor("both", namespace="left").add.remote()) == 3
    assert get(ray.get_actor("both", namespace="right").add.remote()) == 12


def test_another_namespace_does_not_see_the_name(ray, get, named):
    get(named(name="hidden", namespace="closed").add.remote())
    with pytest.raises(ValueError):
        ray.get_actor("hidden")


def test_a_name_is_free_again_after_kill(ray, get, eventually):
    @ray.remote
    class Plain:
        def ping(self):
            return "pong"

    first = Plain.options(name="again").remote()
    get(first.ping.remote())
    ray.kill(first)

    def is_free():
        try:
            ray.get_actor("again")
        except ValueError:
            return True

    eventually(is_free)
    second = Plain.options(name="again").remote()
    assert get(second.ping.remote()) == "pong"


def test_get_if_exists_gives_the_existing_actor(get, named):
    first = named(5, name="once", get_if_exists=True)
    get(first.add.remote())
    second = named(100, name="once", get_if_exists=True)
    assert get(second.add.remote()) == 7


def test_get_if_exists_is_free_of_races(ray, get, named):
    @ray.remote
    class Single:
        def pid(self):
            import os

            return os.getpid()

    @ray.remote
    def ask():
        actor = Single.options(name="race", get_if_exists=True, lifetime="detached").remote()
        return ray.get(actor.pid.remote())

    assert len(set(get([ask.remote() for _ in range(4)]))) == 1
    ray.kill(ray.get_actor("race"))


def test_list_named_actors(get, part, named):
    get(named(name="listed").add.remote())
    assert "listed" in part("util").list_named_actors()


def test_list_named_actors_of_all_namespaces(get, part, named):
    get(named(name="far", namespace="away").add.remote())
    util = part("util")
    assert "far" not in util.list_named_actors()
    everything = util.list_named_actors(all_namespaces=True)
    assert {"name": "far", "namespace": "away"} in everything


def test_a_dead_actor_is_not_listed(ray, get, part, eventually):
    @ray.remote
    class Plain:
        def ping(self):
            return "pong"

    actor = Plain.options(name="gone").remote()
    get(actor.ping.remote())
    ray.kill(actor)
    eventually(lambda: "gone" not in part("util").list_named_actors())


def test_a_named_actor_ends_with_its_last_handle(ray, get, eventually):
    @ray.remote
    class Plain:
        def ping(self):
            return "pong"

    actor = Plain.options(name="short").remote()
    get(actor.ping.remote())
    del actor

    def is_gone():
        try:
            ray.get_actor("short")
        except ValueError:
            return True

    eventually(is_gone)


def test_a_detached_actor_outlives_its_handles_and_its_creator(ray, get):
    @ray.remote
    class Plain:
        def ping(self):
            return "pong"

    @ray.remote
    def create():
        actor = Plain.options(name="lasting", lifetime="detached").remote()
        return ray.get(actor.ping.remote())

    assert get(create.remote()) == "pong"
    actor = ray.get_actor("lasting")
    assert get(actor.ping.remote()) == "pong"
    ray.kill(actor)


def test_the_name_shows_in_the_runtime_context(ray, get):
    @ray.remote
    class Plain:
        def name(self):
            return ray.get_runtime_context().get_actor_name()

    assert get(Plain.options(name="visible").remote().name.remote()) == "visible"
    assert get(Plain.remote().name.remote()) == ""

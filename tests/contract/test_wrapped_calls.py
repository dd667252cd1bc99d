"""Calls of functions that programs wrap, pass around, or spell in older ways."""

from __future__ import annotations

import pytest


def test_a_keyword_may_be_called_self(ray, get):
    @ray.remote
    def echo(**kwargs):
        return kwargs

    @ray.remote
    class Echo:
        def echo(this, **kwargs):
            return kwargs

    assert get(echo.remote(self=1)) == {"self": 1}
    assert get(Echo.remote().echo.remote(self=1)) == {"self": 1}


def test_older_calls_with_options(ray, get):
    @ray.remote
    def numbers(count):
        return list(range(count))

    @ray.remote
    class Pair:
        def both(self, a, b=2):
            return a, b

    assert numbers._remote([0], num_returns=0) is None
    assert get(numbers._remote(args=[2], num_returns=2)) == [0, 1]
    assert get(Pair._remote().both._remote(["a"], {"b": 1}, num_returns=2)) == ["a", 1]


def test_a_function_may_wrap_its_own_remote(ray, get):
    def reversed_arguments(call):
        return lambda args, kwargs: (call(args[::-1], {"d": 5}), kwargs)

    def echo(a, b, d=None):
        return a, b, d

    echo.__ray_invocation_decorator__ = reversed_arguments
    ref, kwargs = ray.remote(echo).remote(1, 2, d=4)
    assert kwargs == {"d": 4}
    assert get(ref) == (2, 1, 5)


def test_a_method_may_wrap_its_own_remote(ray, get):
    def doubled(call):
        return lambda args, kwargs: (call([args[0], args[0]], {}), kwargs)

    def added(method):
        def run(self, a, b):
            return method(self, a + b)

        run.__ray_invocation_decorator__ = doubled
        return run

    @ray.remote
    class Adder:
        @added
        def add(self, total):
            return total + 1

    ref, kwargs = Adder.remote().add.remote(3, extra=3)
    assert kwargs == {"extra": 3}
    assert get(ref) == 7


def test_a_method_of_an_actor_is_an_argument_like_another(ray, get, counter):
    @ray.remote
    def call(method):
        return ray.get(method.remote(5))

    actor = counter.remote()
    assert get(call.remote(actor.add)) == 5
    assert get(call.remote(actor.add.options(num_returns=1))) == 10


def test_an_attribute_does_not_hide_the_method_of_its_name(ray, get):
    @ray.remote
    class Box:
        def __init__(self):
            vars(self)["value"] = 3

        def value(self):
            return self.value

        @staticmethod
        def plain(value):
            return value

        @classmethod
        def named(cls):
            return cls.__name__

    box = Box.remote()
    assert get(box.value.remote()) == 3
    assert get(box.plain.remote(4)) == 4
    assert get(box.named.remote()) == "Box"


@pytest.mark.parametrize("is_async", [False, True])
def test_what_runs_side_by_side_cannot_be_kept_in_order(ray, is_async):
    class Plain:
        if is_async:

            async def run(self):
                pass

    made = ray.remote(max_concurrency=2)(Plain)
    with pytest.raises(ValueError, match="order"):
        made.options(allow_out_of_order_execution=False).remote()


def test_an_actor_class_has_no_subclasses(ray, part, counter):
    with pytest.raises(part("actor").ActorClassInheritanceException, match="Inheriting from actor"):

        class Derived(counter):  # type: ignore[valid-type,misc]  # which is refused
            pass


@pytest.mark.parametrize(
    "selector",
    [
        {"r!a!y.io/zone": "a"},
        {"zone": "??"},
        {"zone": "matches(a)"},
        {"zone": "in(a,, b)"},
        {"zone": "in(a, b"},
    ],
)
def test_selectors_that_cannot_be_are_refused_where_they_are_written(ray, selector):
    with pytest.raises(ValueError, match=r"label|zone"):
        ray.remote(label_selector=selector)(lambda: None)
    with pytest.raises(ValueError, match=r"label|zone"):
        ray.remote(fallback_strategy=[{"label_selector": selector}])(lambda: None)

"""Remote functions: calling, arguments, options, nesting."""

from __future__ import annotations

import pytest


def test_a_task_returns_its_value(ray, get):
    @ray.remote
    def add(a, b):
        return a + b

    assert get(add.remote(1, 2)) == 3


def test_remote_returns_an_object_ref(ray):
    @ray.remote
    def one():
        return 1

    assert isinstance(one.remote(), ray.ObjectRef)


def test_remote_wraps_a_function_without_decorating_it(ray, get):
    def double(x):
        return 2 * x

    assert get(ray.remote(double).remote(4)) == 8
    assert double(4) == 8


def test_remote_with_keywords_wraps_later(ray, get):
    def double(x):
        return 2 * x

    assert get(ray.remote(num_cpus=2)(double).remote(4)) == 8


def test_calling_a_remote_function_directly_is_refused(ray):
    @ray.remote
    def one():
        return 1

    with pytest.raises(TypeError, match="remote"):
        one()


def test_a_chain_of_a_hundred_dependent_tasks(ray, get):
    @ray.remote
    def increment(x):
        return x + 1

    ref = ray.put(0)
    for _ in range(100):
        ref = increment.remote(ref)
    assert get(ref) == 100


def test_many_tasks_return_in_the_order_asked(ray, get):
    @ray.remote
    def square(i):
        return i * i

    assert get([square.remote(i) for i in range(200)]) == [i * i for i in range(200)]


def test_a_task_submits_tasks_and_waits_for_them(ray, get):
    @ray.remote
    def leaf(x):
        return x

    @ray.remote
    def tree(n):
        return sum(ray.get([leaf.remote(i) for i in range(n)]))

    assert get(tree.remote(5)) == 10


def test_deep_nesting_makes_progress_beyond_the_number_of_cpus(ray, get):
    @ray.remote
    def down(n):
        return 0 if n == 0 else 1 + ray.get(down.remote(n - 1))

    assert get(down.remote(8)) == 8


def test_a_recursive_task_can_name_itself(ray, get):
    @ray.remote
    def fib(n):
        return n if n < 2 else sum(ray.get([fib.remote(n - 1), fib.remote(n - 2)]))

    assert get(fib.remote(5)) == 5


def test_a_ref_returned_by_a_task_stays_a_ref(ray, get):
    @ray.remote
    def inner():
        return "value"

    @ray.remote
    def outer():
        return inner.remote()

    ref = get(outer.remote())
    assert isinstance(ref, ray.ObjectRef)
    assert get(ref) == "value"


def test_tasks_put_objects_that_outlive_them_while_referenced(ray, get):
    @ray.remote
    def produce():
        return [ray.put(i) for i in range(3)]

    assert get(get(produce.remote())) == [0, 1, 2]


def test_lambdas_can_be_remote(ray, get):
    assert get(ray.remote(lambda x: x + 1).remote(1)) == 2


def test_options_give_a_changed_copy(ray, get):
    @ray.remote
    def pair():
        return 1, 2

    two = pair.options(num_returns=2)
    first, second = two.remote()
    assert get([first, second]) == [1, 2]
    assert get(pair.remote()) == (1, 2)


def test_several_returns(ray, get):
    @ray.remote(num_returns=3)
    def three():
        return 1, "b", None

    refs = three.remote()
    assert isinstance(refs, list)
    assert get(refs) == [1, "b", None]


def test_several_returns_accept_a_list(ray, get):
    @ray.remote(num_returns=2)
    def two():
        return ["a", "b"]

    assert get(two.remote()) == ["a", "b"]


def test_zero_returns_give_no_ref(ray, tally, eventually):
    @ray.remote(num_returns=0)
    def quiet():
        tally.add()

    assert quiet.remote() is None
    eventually(lambda: tally.count() == 1)


def test_too_few_returned_values_are_an_error_of_the_task(ray, get):
    @ray.remote(num_returns=3)
    def two():
        return 1, 2

    for ref in two.remote():
        with pytest.raises(ValueError):
            get(ref)


def test_too_many_returned_values_are_an_error_of_the_task(ray, get):
    @ray.remote(num_returns=2)
    def three():
        return 1, 2, 3

    for ref in three.remote():
        with pytest.raises(ValueError):
            get(ref)


def test_a_failure_reaches_every_returned_ref(ray, get):
    @ray.remote(num_returns=2)
    def fail():
        raise KeyError("both")

    for ref in fail.remote():
        with pytest.raises(KeyError):
            get(ref)


def test_one_of_several_refs_can_be_used_alone(ray, get):
    @ray.remote(num_returns=2)
    def split():
        return "left", "right"

    @ray.remote
    def upper(text):
        return text.upper()

    _, right = split.remote()
    assert get(upper.remote(right)) == "RIGHT"


def test_tasks_run_at_the_same_time(ray, get, gate, eventually):
    @ray.remote
    def hold():
        gate.enter()

    refs = [hold.remote() for _ in range(4)]
    eventually(lambda: gate.entered() == 4)
    gate.open()
    assert get(refs) == [None] * 4


def test_a_task_that_waits_gives_its_cpu_back(ray, get):
    @ray.remote(num_cpus=4)
    def whole_machine():
        return "ran"

    @ray.remote(num_cpus=4)
    def parent():
        return ray.get(whole_machine.remote())

    assert get(parent.remote()) == "ran"


def test_name_option_shows_in_the_runtime_context(ray, get):
    @ray.remote
    def name():
        return ray.get_runtime_context().get_task_name()

    assert get(name.options(name="renamed").remote()) == "renamed"
    assert get(name.remote()).endswith("name")


def test_an_async_function_is_refused_as_a_task(ray):
    async def later():
        return 1

    with pytest.raises(ValueError, match="async"):
        ray.remote(later).remote()


def test_a_remote_function_is_not_made_remote_again(ray):
    task = ray.remote(lambda: 1)
    with pytest.raises(TypeError):
        ray.remote(task)

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


def test_keyword_and_default_arguments(ray, get):
    @ray.remote
    def shape(a, b=2, *rest, c=3, **more):
        return a, b, rest, c, more

    assert get(shape.remote(1)) == (1, 2, (), 3, {})
    assert get(shape.remote(1, 5, 6, c=7, d=8)) == (1, 5, (6,), 7, {"d": 8})


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


def test_wrong_arguments_fail_at_the_call(ray):
    @ray.remote
    def one_argument(a):
        return a

    with pytest.raises(TypeError):
        one_argument.remote()
    with pytest.raises(TypeError):
        one_argument.remote(1, 2)
    with pytest.raises(TypeError):
        one_argument.remote(1, wrong=2)


def test_top_level_refs_are_resolved_before_the_task_starts(ray, get):
    @ray.remote
    def plus(a, *, b):
        return a + b

    assert get(plus.remote(ray.put(1), b=plus.remote(2, b=3))) == 6


def test_refs_inside_containers_stay_refs(ray, get):
    @ray.remote
    def inspect(items):
        ref = items["inner"][0]
        return isinstance(ref, ray.ObjectRef), ray.get(ref)

    assert get(inspect.remote({"inner": [ray.put("kept")]})) == (True, "kept")


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


def test_one_ref_given_to_many_tasks(ray, get):
    @ray.remote
    def total(numbers, factor):
        return factor * sum(numbers)

    numbers = ray.put(list(range(10)))
    assert get([total.remote(numbers, k) for k in range(5)]) == [0, 45, 90, 135, 180]


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


def test_closures_and_globals_travel_with_the_function(ray, get):
    offset = 41

    def helper(x):
        return x + offset

    @ray.remote
    def call():
        return helper(1)

    assert get(call.remote()) == 42


def test_a_closure_is_captured_when_the_function_is_first_called(ray, get):
    box = {"value": 1}

    @ray.remote
    def read():
        return box["value"]

    assert get(read.remote()) == 1
    box["value"] = 2
    assert get(read.remote()) == 1


def test_lambdas_can_be_remote(ray, get):
    assert get(ray.remote(lambda x: x + 1).remote(1)) == 2


def test_none_true_and_empty_values_come_back_as_they_are(ray, get):
    @ray.remote
    def identity(x):
        return x

    values = [None, True, False, 0, "", b"", [], {}, (), 1.5, float("inf")]
    assert get([identity.remote(v) for v in values]) == values


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


def test_modules_are_imported_by_name_in_workers(ray, get):
    import fractions

    @ray.remote
    def half():
        return fractions.Fraction(1, 2)

    assert get(half.remote()) == fractions.Fraction(1, 2)


def test_local_classes_travel_by_value(ray, get):
    class Point:
        def __init__(self, x):
            self.x = x

    @ray.remote
    def move(point):
        return type(point)(point.x + 1)

    moved = get(move.remote(Point(1)))
    assert moved.x == 2


def test_tasks_run_in_other_processes(ray, get):
    import os

    @ray.remote
    def pid():
        return os.getpid()

    assert get(pid.remote()) != os.getpid()


def test_tasks_run_at_the_same_time(ray, get, gate, eventually):
    @ray.remote
    def hold():
        gate.enter()

    refs = [hold.remote() for _ in range(4)]
    eventually(lambda: gate.entered() == 4)
    gate.open()
    assert get(refs) == [None] * 4


def test_an_argument_changed_after_the_call_does_not_reach_the_task(ray, get, gate):
    @ray.remote
    def read(items):
        gate.enter()
        return items

    items = [1]
    ref = read.remote(items)
    items.append(2)
    gate.open()
    assert get(ref) == [1]


def test_an_argument_changed_by_the_task_does_not_reach_the_caller(ray, get):
    @ray.remote
    def change(items):
        items.append(2)
        return items

    items = [1]
    assert get(change.remote(items)) == [1, 2]
    assert items == [1]


def test_large_arguments_and_results_pass_through(ray, get):
    @ray.remote
    def grow(blob):
        return blob + blob

    blob = bytes(range(256)) * 4096
    assert get(grow.remote(blob)) == blob + blob


def test_a_remote_function_can_be_passed_to_a_task(ray, get):
    @ray.remote
    def add(a, b):
        return a + b

    @ray.remote
    def call(function, *args):
        return ray.get(function.remote(*args))

    assert get(call.remote(add, 1, 2)) == 3


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


def test_a_default_argument_that_is_a_ref_stays_a_ref(ray, get):
    ref = ray.put(9)

    @ray.remote
    def read(x=ref):
        return isinstance(x, ray.ObjectRef), ray.get(x)

    assert get(read.remote()) == (True, 9)


def test_refs_in_sets_keys_and_attributes_stay_refs(ray, get):
    class Box:
        def __init__(self, content):
            self.content = content

    @ray.remote
    def read(in_set, as_key, in_box):
        [one], [two] = in_set, as_key
        return ray.get([one, two, in_box.content])

    assert get(read.remote({ray.put(1)}, {ray.put(2): None}, Box(ray.put(3)))) == [1, 2, 3]


def test_hundreds_of_refs_as_arguments(ray, get):
    @ray.remote
    def total(*numbers):
        return sum(numbers)

    assert get(total.remote(*[ray.put(i) for i in range(300)])) == sum(range(300))


def test_threads_of_the_driver_submit_and_get(ray, get):
    from concurrent.futures import ThreadPoolExecutor

    @ray.remote
    def echo(x):
        return x

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: get(echo.remote(i)), range(40))) == list(range(40))


def test_threads_of_a_task_submit_and_get(ray, get):
    from concurrent.futures import ThreadPoolExecutor

    @ray.remote
    def echo(x):
        return x

    @ray.remote
    def parent():
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda i: ray.get(echo.remote(i)), range(8)))

    assert get(parent.remote()) == list(range(8))


def test_a_task_runs_in_the_main_thread(ray, get):
    import threading

    @ray.remote
    def is_main():
        return threading.current_thread() is threading.main_thread()

    assert get(is_main.remote())


def test_a_task_runs_an_event_loop_of_its_own(ray, get):
    import asyncio

    @ray.remote
    def echo(x):
        return x

    @ray.remote
    def parent():
        async def main():
            return await echo.remote(5)

        return asyncio.run(main())

    assert get(parent.remote()) == 5


def test_a_task_starts_processes(ray, get):
    import subprocess

    @ray.remote
    def shell():
        return subprocess.run(["echo", "hello"], capture_output=True, text=True, check=True).stdout

    assert get(shell.remote()) == "hello\n"


def test_the_standard_input_of_a_task_is_empty(ray, get):
    import sys

    @ray.remote
    def read():
        return sys.stdin.read()

    assert get(read.remote()) == ""


def test_a_task_runs_in_the_drivers_folder(ray, get):
    import os

    @ray.remote
    def folder():
        return os.getcwd()

    assert get(folder.remote()) == os.getcwd()


def test_a_task_is_part_of_the_running_session(ray, get):
    @ray.remote
    def start():
        assert ray.is_initialized()
        ray.init()

    with pytest.raises(RuntimeError):
        get(start.remote())


def test_a_worker_is_reused(ray, get):
    import os

    @ray.remote
    def pid():
        return os.getpid()

    assert len({get(pid.remote()) for _ in range(20)}) < 20


NAMES = """
    ActorID DynamicObjectRefGenerator JobID LoggingConfig NodeID ObjectID ObjectRef
    ObjectRefGenerator PlacementGroupID TaskID UniqueID WorkerID actor available_resources cancel
    cloudpickle cluster_resources exceptions get get_actor get_gpu_ids get_runtime_context init
    is_initialized kill method nodes put remote runtime_context runtime_env shutdown timeline
    util wait __version__
"""


def test_public_names(engine):
    """In a process of its own, where no test has imported a submodule yet."""
    import subprocess
    import sys

    program = f"import {engine} as ray\nprint(*dir(ray))"
    shown = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert set(NAMES.split()) - set(shown.split()) == set()

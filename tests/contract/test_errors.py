"""Errors of tasks: the class that a reader gets, what the error carries, and how it spreads to
other tasks.
"""

from __future__ import annotations

import threading

import pytest


def test_an_error_is_the_users_own_class(ray, get):
    class Broken(Exception):
        pass

    @ray.remote
    def fail():
        raise Broken("because")

    with pytest.raises(Broken, match="because"):
        get(fail.remote())


def test_an_error_is_also_a_task_error(ray, get, errors):
    @ray.remote
    def fail():
        raise ZeroDivisionError("by zero")

    with pytest.raises(errors.RayTaskError) as caught:
        get(fail.remote())
    assert isinstance(caught.value, ZeroDivisionError)
    assert isinstance(caught.value, errors.RayError)


def test_the_cause_is_the_original_exception(ray, get, errors):
    @ray.remote
    def fail():
        raise KeyError("missing")

    with pytest.raises(errors.RayTaskError) as caught:
        get(fail.remote())
    assert type(caught.value.cause) is KeyError
    assert caught.value.cause.args == ("missing",)


def test_attributes_of_the_users_error_are_kept(ray, get):
    class Coded(Exception):
        def __init__(self, code):
            super().__init__(f"code {code}")
            self.code = code

    @ray.remote
    def fail():
        raise Coded(7)

    with pytest.raises(Coded) as caught:
        get(fail.remote())
    assert caught.value.code == 7


def test_the_message_shows_the_remote_traceback(ray, get, errors):
    @ray.remote
    def a_function_that_fails():
        raise RuntimeError("deep reason")

    with pytest.raises(errors.RayTaskError) as caught:
        get(a_function_that_fails.remote())
    assert "a_function_that_fails" in str(caught.value)
    assert "deep reason" in str(caught.value)


def test_an_error_raised_again_on_every_get(ray, get):
    @ray.remote
    def fail():
        raise OSError("again")

    ref = fail.remote()
    for _ in range(2):
        with pytest.raises(OSError, match="again"):
            get(ref)


def test_a_failed_dependency_fails_the_child_with_the_same_class(ray, get, tally):
    @ray.remote
    def fail():
        raise LookupError("source")

    @ray.remote
    def child(value):
        tally.add()
        return value

    with pytest.raises(LookupError):
        get(child.remote(fail.remote()))
    assert tally.count() == 0


def test_a_failure_runs_down_a_chain(ray, get):
    @ray.remote
    def fail():
        raise LookupError("source")

    @ray.remote
    def child(value):
        return value

    ref = fail.remote()
    for _ in range(4):
        ref = child.remote(ref)
    with pytest.raises(LookupError, match="source"):
        get(ref)


def test_a_failed_ref_inside_a_container_does_not_fail_the_task(ray, get):
    @ray.remote
    def fail():
        raise LookupError("source")

    @ray.remote
    def child(refs):
        try:
            ray.get(refs[0])
        except LookupError:
            return "handled"

    assert get(child.remote([fail.remote()])) == "handled"


def test_a_nested_error_keeps_its_class_through_two_tasks(ray, get):
    @ray.remote
    def fail():
        raise FileNotFoundError("inner")

    @ray.remote
    def outer():
        return ray.get(fail.remote())

    with pytest.raises(FileNotFoundError):
        get(outer.remote())


def test_an_unpicklable_error_is_told_as_text(ray, get, errors):
    class Sealed(Exception):
        def __reduce__(self):
            raise TypeError("cannot pickle me")

    @ray.remote
    def fail():
        raise Sealed("words that matter")

    with pytest.raises(errors.RayError, match="words that matter"):
        get(fail.remote())


def test_an_error_that_cannot_be_unpickled_still_arrives(ray, get, errors):
    class TwoArguments(Exception):
        def __init__(self, a, b):
            super().__init__(f"{a}{b}")

    @ray.remote
    def fail():
        raise TwoArguments("x", "y")

    with pytest.raises(errors.RayError):
        get(fail.remote())


def test_an_unpicklable_result_is_an_error_of_the_task(ray, get):
    import threading

    @ray.remote
    def lock():
        return threading.Lock()

    with pytest.raises(TypeError, match="pickle"):
        get(lock.remote())


def test_an_unpicklable_argument_is_refused_at_the_call(ray):
    import threading

    @ray.remote
    def take(value):
        return value

    with pytest.raises(TypeError, match=r"serialize|pickle"):
        take.remote(threading.Lock())


def test_an_unpicklable_closure_is_refused(ray):
    import threading

    lock = threading.Lock()

    @ray.remote
    def use():
        return lock

    with pytest.raises(TypeError, match=r"serialize|pickle"):
        use.remote()


def test_an_unpicklable_put_is_refused(ray):
    import threading

    with pytest.raises(TypeError, match=r"serialize|pickle"):
        ray.put(threading.Lock())


def test_exceptions_can_be_values(ray, get):
    @ray.remote
    def value():
        return ValueError("returned, not raised")

    result = get(value.remote())
    assert type(result) is ValueError


def test_system_exit_ends_the_worker(ray, get, errors):
    import sys

    @ray.remote(max_retries=0)
    def leave():
        sys.exit(1)

    with pytest.raises(errors.WorkerCrashedError):
        get(leave.remote())


def test_a_crashed_worker_is_named_so(ray, get, errors):
    import os

    @ray.remote(max_retries=0)
    def crash():
        os._exit(1)

    with pytest.raises(errors.WorkerCrashedError):
        get(crash.remote())


def test_work_whose_argument_was_lost_fails_with_that_as_a_task_error(ray, get, errors, counter):
    import os

    @ray.remote(max_retries=0)
    def crash():
        os._exit(1)

    lost = crash.remote()
    with pytest.raises(errors.WorkerCrashedError) as of_itself:
        get(lost)
    assert not isinstance(of_itself.value, errors.RayTaskError)
    for dependent in (ray.remote(lambda x: x).remote(lost), counter.remote().add.remote(lost)):
        with pytest.raises(errors.RayTaskError) as failed:
            get(dependent)
        assert isinstance(failed.value, errors.WorkerCrashedError)


def test_a_crash_does_not_harm_other_tasks(ray, get, errors):
    import os

    @ray.remote(max_retries=0)
    def crash():
        os._exit(1)

    @ray.remote
    def work(i):
        return i

    bad = crash.remote()
    good = [work.remote(i) for i in range(20)]
    with pytest.raises(errors.WorkerCrashedError):
        get(bad)
    assert get(good) == list(range(20))


def test_a_task_error_can_be_caught_inside_a_task(ray, get):
    @ray.remote
    def fail():
        raise ValueError("inside")

    @ray.remote
    def careful():
        try:
            ray.get(fail.remote())
        except ValueError as error:
            return type(error.cause).__name__

    assert get(careful.remote()) == "ValueError"


def test_a_task_error_returned_as_a_value_is_raised_at_the_reader(ray, get, errors):
    @ray.remote
    def fail():
        raise ValueError("round trip")

    @ray.remote
    def catch():
        try:
            ray.get(fail.remote())
        except ValueError as error:
            return error

    with pytest.raises(ValueError, match="round trip") as caught:
        get(catch.remote())
    assert isinstance(caught.value, errors.RayTaskError)


BUILTIN = [
    ArithmeticError("a"),
    AssertionError("a"),
    EOFError("e"),
    FileNotFoundError(2, "no such file", "path"),
    ImportError("i"),
    MemoryError("m"),
    NotImplementedError("n"),
    OSError(5, "input/output"),
    RecursionError("r"),
    StopAsyncIteration("s"),
    StopIteration("s"),
    TimeoutError("t"),
    UnicodeDecodeError("utf8", b"x", 0, 1, "bad"),
    Warning("w"),
]


@pytest.mark.parametrize("error", BUILTIN, ids=lambda error: type(error).__name__)
def test_a_builtin_error_keeps_its_class(ray, get, errors, error):
    @ray.remote(max_retries=0)
    def fail():
        raise error

    with pytest.raises(type(error)) as caught:
        get(fail.remote())
    assert isinstance(caught.value, errors.RayTaskError)


def test_an_error_outside_the_tree_of_exception_keeps_its_class(ray, get, errors):
    class Outside(BaseException):
        pass

    @ray.remote(max_retries=0)
    def fail():
        raise Outside("base")

    with pytest.raises(errors.RayTaskError) as caught:
        get(fail.remote())
    assert isinstance(caught.value, Outside)


def test_an_interrupt_raised_by_a_task_is_a_cancellation(ray, get, errors):
    """The reader gets TaskCancelledError, not a KeyboardInterrupt, which would end the driver."""

    @ray.remote(max_retries=0)
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(BaseException) as caught:
        get(interrupt.remote())
    assert isinstance(caught.value, errors.TaskCancelledError)
    assert not isinstance(caught.value, KeyboardInterrupt)


def test_the_message_tells_the_cause_of_the_cause(ray, get):
    @ray.remote
    def fail():
        try:
            return 1 / 0
        except ZeroDivisionError as error:
            raise ValueError("outer") from error

    with pytest.raises(ValueError, match="outer") as caught:
        get(fail.remote())
    assert "ZeroDivisionError" in str(caught.value)


def test_the_class_of_an_error_names_both_sides(ray, get):
    @ray.remote
    def fail():
        raise ValueError("named")

    with pytest.raises(ValueError) as caught:
        get(fail.remote())
    assert "TaskError" in type(caught.value).__name__
    assert "ValueError" in type(caught.value).__name__


def test_a_failing_method_names_itself(ray, get):
    @ray.remote
    class Actor:
        def a_method_that_fails(self):
            raise ValueError("inside")

    with pytest.raises(ValueError, match="a_method_that_fails"):
        get(Actor.remote().a_method_that_fails.remote())


def test_a_generator_cannot_leave_its_process(ray):
    @ray.remote
    def stream():
        yield 1

    @ray.remote
    def take(value):
        return value

    generator = stream.remote()
    with pytest.raises(TypeError):
        take.remote(generator)
    with pytest.raises(TypeError):
        ray.put(generator)


def test_an_error_whose_args_cannot_be_set_is_the_users_own_class(ray, get, errors):
    class ReadOnly(Exception):
        @property
        def args(self):  # type: ignore[override]
            return ("fixed",)

    @ray.remote
    def fail():
        raise ReadOnly

    with pytest.raises(ReadOnly) as caught:
        get(fail.remote())
    assert isinstance(caught.value, errors.RayTaskError)
    assert caught.value.args == (caught.value.cause,)


def test_an_error_travels_by_the_serializer_of_its_class(ray, get, part):
    class Locked(Exception):
        def __init__(self, text, lock):
            self.text, self.lock = text, lock

    @ray.remote
    def fail():
        part("util").register_serializer(
            Locked, serializer=lambda e: e.text, deserializer=lambda text: Locked(text, None)
        )
        raise Locked("closed", threading.Lock())

    with pytest.raises(Locked) as caught:
        get(fail.remote())
    assert caught.value.cause.text == "closed"


def test_an_error_of_a_task_that_is_put_is_raised_to_its_readers(ray, get, tally):
    @ray.remote
    def fail():
        raise KeyError("first")

    @ray.remote
    def read(error):
        tally.add()
        return error

    with pytest.raises(KeyError) as caught:
        get(fail.remote())
    ref = ray.put(caught.value)
    for reader in (ref, read.remote(ref)):
        with pytest.raises(KeyError, match="first"):
            get(reader)
    assert tally.count() == 0
    assert str(get(ray.put(KeyError("plain")))) == "'plain'"

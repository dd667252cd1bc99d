"""Error messages that say what went wrong."""

from __future__ import annotations

import re

import pytest
from tests.polling import eventually

import phalanx
from phalanx import errors


class Fragile:
    """An object whose pickle cannot be loaded."""

    def __reduce__(self):
        return divmod, (1, 0)


def test_a_value_that_cannot_be_unpickled_is_named_as_that(runtime, get):
    @runtime.remote
    def make():
        return Fragile()

    for refs in (make.remote(), [make.remote()], runtime.put(Fragile())):
        with pytest.raises(errors.UnserializableException, match="ZeroDivisionError") as caught:
            get(refs)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_timeout_names_what_was_waited_for(runtime):
    @runtime.remote(num_cpus=50)
    def never():
        pass

    @phalanx.remote(num_cpus=50)
    class Never:
        def ask(self):
            pass

    with pytest.raises(errors.GetTimeoutError, match=r"result of task never was not ready"):
        runtime.get(never.remote(), timeout=0.01)
    with pytest.raises(errors.GetTimeoutError, match=r"1 of 2 objects .* result of task never"):
        runtime.get([runtime.put(1), never.remote()], timeout=0.01)
    actor = Never.remote()
    with pytest.raises(errors.GetTimeoutError, match=r"result of the actor's method ask"):
        runtime.get(actor.ask.remote(), timeout=0.01)


def why_absent(runtime, ref, words):
    """Wait until the message of a timeout gives `words` as the reason why a result is missing."""

    def tells():
        with pytest.raises(errors.GetTimeoutError) as caught:
            runtime.get(ref, timeout=0)
        return re.search(rf"was not ready after 0 s: .*{words}.*\.$", str(caught.value))

    assert eventually(tells), words


def test_a_timeout_says_why_it_is_not_there(runtime, get, tmp_path):
    go = tmp_path / "go"

    @runtime.remote(num_cpus=0)
    def wait(path, _=None):
        import pathlib
        import time

        while not pathlib.Path(path).exists():
            time.sleep(0.01)

    @runtime.remote(num_cpus=50)
    def never():
        pass

    @phalanx.remote(num_cpus=0)
    class Serves:
        def wait(self, path, _=None):
            return get(wait.remote(path))

    too_large, actor = never.remote(), Serves.remote()
    running = wait.remote(str(go))
    call = actor.wait.remote(str(go))
    for ref, words in (
        (running, "it runs"),
        (wait.remote(str(go), running), "it waits for its arguments"),
        (too_large, r"it asks for 50 CPU and the largest node has"),
        (call, "its actor runs it"),
        (actor.wait.remote(str(go), running), "it waits for its arguments"),
        (actor.wait.remote(str(go)), "it waits for an earlier call"),
        (Serves.options(num_cpus=50).remote().wait.remote(""), "its actor has not started"),
    ):
        why_absent(runtime, ref, words)
    with pytest.raises(errors.GetTimeoutError, match=r"The first of them is .* wait: it runs"):
        runtime.get([running, call], timeout=0)
    go.touch()
    get([running, call])


def test_a_task_that_is_cancelled_by_force_did_not_crash(runtime, get, tmp_path):
    begun = tmp_path / "begun"

    @runtime.remote(max_retries=0)
    def stubborn(path):
        import pathlib
        import time

        pathlib.Path(path).touch()
        time.sleep(1000)

    ref = stubborn.remote(str(begun))
    while not begun.exists():
        runtime.wait([ref], timeout=0.05)
    runtime.cancel(ref, force=True)
    with pytest.raises(
        errors.TaskCancelledError, match="stubborn was cancelled with force"
    ) as caught:
        get(ref)
    assert isinstance(caught.value, errors.WorkerCrashedError), "which is what Ray raises"
    assert "crash" not in str(caught.value)

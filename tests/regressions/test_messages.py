"""What people read when something goes wrong."""

from __future__ import annotations

import pytest

import phalanx
from phalanx import errors


class Fragile:
    """Its pickle does not load."""

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

    with pytest.raises(errors.GetTimeoutError, match=r"result of task never was not there"):
        runtime.get(never.remote(), timeout=0.01)
    with pytest.raises(errors.GetTimeoutError, match=r"1 of 2 objects .* result of task never"):
        runtime.get([runtime.put(1), never.remote()], timeout=0.01)
    actor = Never.remote()
    with pytest.raises(errors.GetTimeoutError, match=r"result of the actor's method ask"):
        runtime.get(actor.ask.remote(), timeout=0.01)


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

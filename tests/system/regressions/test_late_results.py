"""A worker held a result back in order to send it with the next ones, because the next task was
expected to be short. But that task took long.
"""

from __future__ import annotations

from tests.polling import eventually

ROUNDS = 12
"""The number of rounds. Without the fix about one round in three failed."""


def test_a_result_does_not_wait_for_the_end_of_the_task_behind_it(runtime, get, tmp_path):
    @runtime.remote(num_cpus=2)  # all there are: one worker runs both
    def pass_on(value, until=None):
        if until is not None:
            eventually(until.exists)
        return value

    for turn in range(ROUNDS):
        get([pass_on.remote(n) for n in range(8)])  # so it is taken for a short one
        until = tmp_path / str(turn)
        first, second = pass_on.remote("first"), pass_on.remote("second", until)
        assert get(first) == "first"
        until.touch()
        assert get(second) == "second"

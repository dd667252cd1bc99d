"""How a process ended, as an exit code, as text, and as a signal: no two endings are confused."""

from __future__ import annotations

import pytest

from phalanx.head.jobs.array_tasks import ArrayTasks
from phalanx.manifests.arrays import read_array
from phalanx.model.jobs import states as st
from phalanx.model.steps import Step
from phalanx.runtime.os.commands import exit_of


@pytest.mark.parametrize(
    ("ended", "code", "signal", "reason"),
    [
        (0, 0, 0, ""),
        (3, 3, 0, ""),
        (126, 126, 0, "exit code 126: its command could not be started"),
        (127, 127, 0, "exit code 127: its command was not found"),
        (128, 128, 0, ""),
        (137, 137, 0, "exit code 137, as a shell returns when SIGKILL ended its command"),
        (255, 255, 0, ""),
        (-9, 137, 9, "it was ended by SIGKILL"),
        (-15, 143, 15, "it was ended by SIGTERM"),
        (-40, 168, 40, "it was ended by signal 40"),
    ],
)
def test_how_a_process_ended(ended, code, signal, reason):
    assert exit_of(ended) == (code, reason, signal)


def test_an_element_keeps_whether_it_was_a_signal():
    spec = read_array("0-3")
    elements = ArrayTasks(spec)
    ends = [(137, 0), (137, 9), (0, 0), (None, 0)]
    for position, (code, signal) in enumerate(ends):
        elements.end(position, st.FAILED, code, signal, 1, {})
    assert not elements.is_like(0, 1)
    again = ArrayTasks(spec)
    again.load(elements.part("default/a", 0))
    for known in (elements, again):
        kept = [known.ended(position) for position in range(4)]
        assert [(one.exit_code, one.signal) for one in kept] == ends


def test_a_step_has_the_code_and_the_signal_of_one_task():
    step = Step(
        job="1", namespace="default", submitted=1.0, number=0, name="s", user="u", queue="q",
        command="c", tasks=3, started=1.0,
    )  # fmt: skip
    for code, signal in ((0, 0), (139, 11), (130, 0)):
        step = step.with_task(code, None, signal)
    assert (step.exit_code, step.signal) == (139, 11)
    step = step.with_task(200, None, 0)
    assert (step.exit_code, step.signal) == (200, 0)

"""A real head whose clock is set far ahead and back: its bills, the jobs of its cron jobs, and what
it reports stay right.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import Machine

from phalanx.observe.events import EventQuery
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.jobs import ListCrons
from phalanx.protocol.requests.shares import GetShares

FAR_S = 400 * 86_400
SET_BY_A_FILE = """
import time
_real = time.time

def _set():
    try:
        with open({file!r}) as file:
            return _real() + float(file.read() or 0)
    except FileNotFoundError:
        return _real()

time.time = _set
"""
"""The code of a `sitecustomize` module, which every interpreter loads: it shifts time.time by the
number in a file, and changes nothing else.
"""
CRON = """
apiVersion: batch.volcano.sh/v1alpha1
kind: CronJob
metadata: {name: c}
spec:
  schedule: "@every 2s"
  concurrencyPolicy: Replace
  jobTemplate:
    spec:
      tasks:
        - name: t
          template: {spec: {containers: [{name: c, image: "", command: ["true"]}]}}
"""


class Clock:
    """The wall clock that the machine's programs see."""

    def __init__(self, machine: Machine, tmp_path: Path) -> None:
        self._machine = machine
        self._file = tmp_path / "ahead"
        (tmp_path / "sitecustomize.py").write_text(SET_BY_A_FILE.format(file=str(self._file)))
        before = machine.env.get("PYTHONPATH", "")
        machine.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tmp_path), before]))
        self._steps = 0

    def set(self, ahead_s: float) -> None:
        """Set the clock this many seconds ahead of the real time, and wait until the head has
        noticed.
        """
        draft = self._file.with_suffix(".new")
        draft.write_text(str(ahead_s))
        os.replace(draft, self._file)
        self._steps += 1
        query = EventQuery(kinds=["clock-stepped"])
        eventually(lambda: len(self._machine.ask(ListEvents(query)).events) >= self._steps)


@pytest.fixture
def clock(machine: Machine, tmp_path: Path) -> Clock:
    made = Clock(machine, tmp_path)
    machine.start_head()
    return made


def made(machine: Machine) -> int:
    """Return the time for which the newest job of the cron job was due."""
    [row] = machine.ask(ListCrons())
    return round(row.last_scheduled or 0)


def test_a_clock_that_is_far_ahead_for_a_moment(
    machine: Machine, clock: Clock, tmp_path: Path
) -> None:
    file = tmp_path / "cron.yaml"
    file.write_text(CRON)
    machine.done("submit", str(file))
    eventually(lambda: made(machine) > 0)
    clock.set(FAR_S)
    machine.done("run", "--", "true")  # ends while the clock is wrong
    clock.set(0.0)
    shares = machine.ask(GetShares("default"))
    assert sum(row.use for row in shares) < 3600.0, "not the hours that the clock jumped over"
    before = time.time()
    eventually(lambda: before < made(machine) < before + FAR_S / 2)

"""A node's reports about its machine: they have the use between two readings, and leave out unknown
values.
"""

from __future__ import annotations

import time
from unittest.mock import Mock

from phalanx.node.machine_use import LOOK_EVERY_S, MachineReading, MachineUse
from phalanx.protocol.report_messages import MachineSeen
from phalanx.runtime.os.machine_counters import read_machine


def test_a_report_is_the_use_between_two_readings():
    readings = [
        MachineReading(100.0, 5.0),
        MachineReading(125.0, 6.0),
        None,
        MachineReading(130, 7),
    ]
    head = Mock(is_connected=True)
    machine = MachineUse(iter(readings).__next__, head, Mock())
    for step in range(4):
        machine.tick(50.0 + step * LOOK_EVERY_S)
        machine.tick(50.5 + step * LOOK_EVERY_S)  # too early for another reading
    assert [call.args for call in head.report.call_args_list] == [(MachineSeen(2.5, 6.0),)]


def test_a_head_that_is_away_is_told_nothing():
    head = Mock(is_connected=False)
    machine = MachineUse(lambda: MachineReading(time.monotonic(), 1.0), head, Mock())
    for step in range(3):
        machine.tick(step * LOOK_EVERY_S)
    head.report.assert_not_called()


def test_the_kernel_counts_the_work_of_a_busy_process():
    before = read_machine()
    assert before is not None and before.memory_bytes > 2**20
    began = time.process_time()
    while time.process_time() - began < 0.3:
        pass
    after = read_machine()
    assert after is not None and after.cpu_s - before.cpu_s >= 0.25

"""Calls of a remote function by tasks that pass their placement group on to child tasks, and by
other tasks.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec

from phalanx.objects.reference import make_ref
from phalanx.runtime.driver.functions import Submitter
from phalanx.runtime.engine.definitions import FunctionDefinition
from phalanx.worker.context import LeaseInfo, TaskContext, current

ME = b"node--" + b"worker----"


class Tasks:
    """Records the placement groups of the tasks that are submitted."""

    def __init__(self):
        self.groups = []
        self.machine = SimpleNamespace(dirty=False)

    def new(self, template, args, inputs, pins):
        return SimpleNamespace(template=template, refs=[make_ref(ME, 1)])

    def submit(self, task, parent, stream):
        self.call(task.template, (), parent)

    def call(self, template, args, parent):
        strategy = template.key.strategy
        self.groups.append(msgspec.json.decode(strategy)["group"] if strategy else None)
        return make_ref(ME, 1)


def pack(value):
    return b"", None, None


def in_task(call, group=None, capture=False):
    lease = LeaseInfo(b"job", {}, {}, group, capture)
    token = current.set(TaskContext(ME, 1, "parent", 0, lease, is_actor=False))
    try:
        call((), {})
    finally:
        current.reset(token)


def test_a_call_follows_the_task_that_makes_it_and_not_the_first_one():
    tasks: Any = Tasks()
    unused: Any = None
    job: Any = SimpleNamespace(
        environment={}, queue="", priority=0, has_image=lambda environment: False
    )
    submitter = Submitter(
        ME,
        nullcontext(),
        tasks,
        unused,
        lambda value: (b"", None, None),
        unused,
        job,
        unused,
        unused,
    )
    child = submitter.bind(FunctionDefinition(lambda: 3), {})
    in_task(child)
    in_task(child, group=b"\1", capture=True)
    in_task(child, group=b"\1")
    in_task(child, group=b"\2", capture=True)
    child((), {})
    assert tasks.groups == [None, "01", None, "02", None]

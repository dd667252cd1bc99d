"""Explains in a clause why the result of a task or call is not here yet, as far as its owner knows.

No other process is asked. The request `explain` asks other processes, and its answer says more.
"""

from __future__ import annotations

from phalanx.model.lifecycle import ALIVE, PENDING_ARGS, PENDING_CREATION, RESTARTING
from phalanx.owner.actors.client import ActorClient, PendingCall
from phalanx.owner.tasks.records import PendingTask, SchedulingClass


def why_task(task: PendingTask, scheduling_class: SchedulingClass) -> str:
    """Return why a task has not ended. `scheduling_class`: the task's class."""
    if task.state == PENDING_ARGS:
        return "it waits for its arguments"
    worker = task.worker
    if worker is not None:
        if worker.inflight.first == task.number:
            return "it runs"
        return "it waits behind another task on its worker"
    if scheduling_class.refusal:
        return scheduling_class.refusal
    asked = ", ".join(f"{amount:g} {name}" for name, amount in task.key.resources)
    return f"it waits for a worker with {asked}" if asked else "it waits for a worker"


def why_call(call: PendingCall) -> str:
    """Return why an actor's call has not ended."""
    actor = call.actor
    if call.number in actor.inflight:
        runs = not actor.concurrency or call.number in actor.begun()
        if runs:
            return f"its actor runs it{_tried(actor) if call.attempt else ''}"
        return f"its actor runs earlier calls{_tried(actor)}"
    if call.missing:
        return "it waits for its arguments"
    if actor.state == PENDING_CREATION:
        return "its actor has not started"
    if actor.state == RESTARTING:
        return f"its actor starts again{_tried(actor)}"
    return "it waits for an earlier call" if actor.state == ALIVE else ""


def _tried(actor: ActorClient) -> str:
    """Return a clause that names the call under which the actor ends again and again; "" if there
    is no such call.
    """
    if actor.ends < 2:
        return ""
    return f" (it has ended {actor.ends} times under its call {actor.ended_under})"

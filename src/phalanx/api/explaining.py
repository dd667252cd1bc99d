"""Explanations of why work waits, in sentences."""

from __future__ import annotations

from typing import Any

from phalanx.api.gangs import Gang
from phalanx.api.jobs import JobHandle
from phalanx.api.session import engine_or_start
from phalanx.errors import JobNotFoundError
from phalanx.model.rows.explanation import Explanation
from phalanx.model.rows.plan import TimePlan
from phalanx.model.rows.row import text_html
from phalanx.objects.handle import ActorHandle
from phalanx.objects.reference import ObjectRef
from phalanx.protocol.requests.gangs import Explain, ShowPlan
from phalanx.protocol.requests.request import Request


class Sentences(str):
    """A text of a few lines. A notebook shows it with its line breaks."""

    def _repr_html_(self) -> str:
        return text_html(self)


def explain(
    what: Gang[Any] | JobHandle | ActorHandle[Any] | ObjectRef[Any] | str,
) -> Sentences:
    """Return an explanation of why something waits, and of what would help.

    For a gang or a job, the text also gives its position in its queue. `what` is a gang, a job's
    handle, the name of either, an actor, or a reference to the result of a task, which may belong
    to a gang. Raises JobNotFoundError when nothing of that name waits or runs, and for a task that
    has ended.

    Example:
        job = phalanx.submit(phalanx.Job("python train.py", name="train", num_gpus=8))
        print(phalanx.explain("train"))
    """
    engine = engine_or_start()
    request: Request[Explanation] | None
    if isinstance(what, (ActorHandle, engine.ref_type)):
        request = engine.why_pending(what)
        if request is None:
            raise JobNotFoundError(
                "this is neither an actor nor a task of this process that waits or runs"
            )
    elif isinstance(what, Gang):
        request = Explain(what.group.hex())
    else:
        request = Explain(what.uid if isinstance(what, JobHandle) else str(what))
    return Sentences(engine.ask(request))


def planned_starts() -> TimePlan:
    """Return the expected starts of waiting work, with the running work before them.

    The plan assumes that jobs run as long as their time limits or past runs suggest. `phalanx plan`
    prints the plan, and a notebook shows it as a table.

    Example:
        plan = phalanx.planned_starts()
    """
    return engine_or_start().ask(ShowPlan())

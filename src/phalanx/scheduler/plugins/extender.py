"""The plugin extender: asks a user's server to filter and rank nodes, and to judge jobs and
victims.

Source: Volcano's extender plugin. The plugin itself opens no socket: the caller lends
`shells["extender"]`, a function (url, payload, timeout_s) -> answer.

If a server fails, exceeds its timeout or gives an invalid answer, the plan gets a warning. The
server is then not asked again in this cycle, which continues without it. A missing answer counts as
a refusal only with `extender.ignorable: false`. In Volcano it counts as a refusal without this
argument, too. But if the server fails at onSessionOpen and may not be ignored, then, as in Volcano,
the plugin takes no part in the cycle, so it refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from phalanx.scheduler.cycle.accepted import DURATION, FLAG, TEXT, Accepted
from phalanx.scheduler.cycle.amounts import Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, flag, seconds, text
from phalanx.scheduler.cycle.hooks import ABSTAIN, PERMIT, REJECT
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.rows import Ask, Filter, Rows, Scorer, always
from phalanx.scheduler.cycle.session import Session

Send = Callable[[str, Mapping[str, Any], float], Any]

POINTS = (
    "onSessionOpen",
    "onSessionClose",
    "predicate",
    "prioritize",
    "preemptable",
    "reclaimable",
    "queueOverused",
    "jobEnqueueable",
    "jobReady",
)


class Extender:
    """The plugin extender. Arguments: `extender.urlPrefix`, `extender.httpTimeout` (1s),
    `extender.ignorable` (true), and a verb for each point that the server handles:
    `extender.onSessionOpenVerb`, `onSessionCloseVerb`, `predicateVerb`, `prioritizeVerb`,
    `preemptableVerb`, `reclaimableVerb`, `queueOverusedVerb`, `jobEnqueueableVerb`, `jobReadyVerb`.
    """

    name = "extender"
    accepts: ClassVar[Accepted] = {
        "extender.urlPrefix": TEXT,
        "extender.httpTimeout": DURATION,
        "extender.ignorable": FLAG,
        **{f"extender.{point}Verb": TEXT for point in POINTS},
    }

    def __init__(self, arguments: Arguments) -> None:
        self._prefix = text(arguments, "extender.urlPrefix").rstrip("/")
        self._timeout_s = seconds(arguments.get("extender.httpTimeout")) or 1.0
        self._ignorable = flag(arguments, "extender.ignorable", True)
        said = {point: text(arguments, f"extender.{point}Verb") for point in POINTS}
        self._verbs = {point: verb for point, verb in said.items() if verb}

    def open(self, session: Session) -> None:
        self._session = session
        self._send: Send | None = session.shells.get("extender")
        self._silent = self._send is None
        if self._verbs and self._silent:
            session.warn("the extender has verbs, but this cycle has no connection to its server")
        self._known: dict[tuple[str, str], Any] = {}
        hooks: dict[str, tuple[str, Any]] = {
            "predicate": ("filter", Filter(reason="extender", passes=self._passes, changes=always,
                                           scope="job")),
            "prioritize": ("scorer", Scorer(name=self.name, score=self._score, changes=always,
                                            scope="job")),
            "preemptable": ("preemptable", self._victims_of("preemptable", "preemptor")),
            "reclaimable": ("reclaimable", self._victims_of("reclaimable", "reclaimer")),
            "queueOverused": ("overused", self._overused),
            "jobEnqueueable": ("job_enqueueable", self._enqueueable),
            "jobReady": ("job_ready", self._ready),
        }  # fmt: skip
        if "onSessionOpen" in self._verbs and not self._opens(session):
            return
        if "onSessionClose" in self._verbs:
            session.add("closing", self.name, lambda: self._call("onSessionClose", "", {}, object))
        for point, (hook, fn) in hooks.items():
            if point in self._verbs:
                session.add(hook, self.name, fn)

    def _opens(self, session: Session) -> bool:
        """Report to the server that the session opens. Returns False if the server did not answer
        and `ignorable` is false.
        """
        cluster = session.cluster
        self._call(
            "onSessionOpen",
            "",
            {
                "jobs": [job.uid for job in cluster.jobs],
                "nodes": cluster.node_names,
                "queues": [queue.name for queue in cluster.queues],
            },
            object,
        )
        return self._ignorable or not self._silent

    def _call(self, point: str, key: str, payload: Mapping[str, Any], good: type) -> Any:
        """Return the server's answer if it is of the type `good`; otherwise None. Each question is
        sent once in a cycle.
        """
        if (point, key) in self._known:
            return self._known[point, key]
        answer = None
        if not self._silent and self._send is not None:
            url = f"{self._prefix}/{self._verbs[point]}"
            try:
                answer = self._send(url, payload, self._timeout_s)
            except Exception as e:
                self._give_up(f"the extender failed at {point}: {e}")
            if answer is not None and not isinstance(answer, good):
                self._give_up(f"the extender answered {point} with {type(answer).__name__}")
                answer = None
        self._known[point, key] = answer
        return answer

    def _give_up(self, why: str) -> None:
        self._silent = True
        self._session.warn(f"{why}; it is not asked again in this cycle")

    def _ask_nodes(self, point: str, ask: Ask) -> Any:
        cluster = self._session.cluster
        key = f"{ask.job.uid}/{ask.eq_class.index}"
        task = {"task": cluster.task_uid[ask.task], "job": ask.job.uid,
                "request": dict(ask.eq_class.shape.request)}  # fmt: skip
        return self._call(point, key, {**task, "nodes": cluster.node_names}, dict)

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        answer = self._ask_nodes("predicate", ask)
        listed = answer.get("nodes") if answer is not None else None
        if not isinstance(listed, list):
            if answer is not None:
                self._give_up("the extender answered predicate without a list of nodes")
            return np.full(len(rows), self._ignorable, dtype=np.bool_)
        names = {x for x in listed if isinstance(x, str)}
        of = self._session.cluster.node_names
        return np.array([of[n] in names for n in rows.index], dtype=np.bool_)

    def _score(self, rows: Rows, ask: Ask) -> Vector:
        answer = self._ask_nodes("prioritize", ask) or {}
        found = answer.get("scores")
        scores = found if isinstance(found, dict) else {}
        of = self._session.cluster.node_names
        return np.array([_number(scores.get(of[n])) for n in rows.index], dtype=np.float64)

    def _victims_of(self, point: str, who: str) -> Callable[[int, Sequence[int]], Any]:
        def victims(asker: int, candidates: Sequence[int]) -> list[int] | None:
            uids = self._session.cluster.task_uid
            listed = [uids[t] for t in candidates]
            payload = {who: uids[asker], "candidates": listed}
            answer = self._call(point, f"{asker}:{listed}", payload, dict)
            named = answer.get("victims") if answer is not None else None
            if not isinstance(named, list):
                return None if self._ignorable else []
            if answer.get("status") == ABSTAIN:
                return None
            return [t for t in candidates if uids[t] in named]

        return victims

    def _overused(self, queue: int) -> bool:
        name = self._session.cluster.queues[queue].name
        answer = self._call("queueOverused", name, {"queue": name}, dict)
        return bool(answer.get("overused")) if answer is not None else not self._ignorable

    def _enqueueable(self, job: Job) -> int:
        answer = self._call("jobEnqueueable", job.uid, {"job": job.uid}, dict)
        if answer is None:
            return PERMIT if self._ignorable else REJECT
        status = answer.get("status")
        return status if status in (PERMIT, ABSTAIN, REJECT) else ABSTAIN

    def _ready(self, job: Job) -> bool:
        answer = self._call("jobReady", job.uid, {"job": job.uid}, dict)
        return bool(answer.get("ready")) if answer is not None else self._ignorable


def _number(given: Any) -> float:
    """Return an answer as a score. Scores of _BEYOND or more cannot be added; they count as 0, and
    so do values that are not numbers.
    """
    if isinstance(given, bool) or not isinstance(given, int | float):
        return 0.0
    return float(given) if abs(given) < _BEYOND else 0.0


_BEYOND = 1e12

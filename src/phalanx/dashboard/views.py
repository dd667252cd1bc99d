"""The pages by address: their questions to the head, their data and their templates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from phalanx import __version__
from phalanx.dashboard.output import plain_text
from phalanx.dashboard.pages import (
    actors,
    arrays,
    decisions,
    device_map,
    events,
    history,
    jobs,
    member_use,
    node_use,
    nodes,
    objects,
    overview,
    plan,
    queues,
    task_story,
    task_stream,
    what_if,
    work,
)
from phalanx.dashboard.pages.metrics import SPANS_S
from phalanx.dashboard.record import NotRecordedError
from phalanx.dashboard.watch import ClusterSnapshot, Watch
from phalanx.dashboard.what_if import WhatIf
from phalanx.errors import JobNotFoundError, PhalanxError
from phalanx.head.jobs.what_if import with_ids
from phalanx.model.jobs import states as st
from phalanx.model.rows.explanation import Explanation
from phalanx.model.rows.work import JobDescription
from phalanx.observe.health import health
from phalanx.observe.state.query import StateAnswer, StateQuery, with_names
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.protocol.requests.accounting import GetUsage, ListAttempts
from phalanx.protocol.requests.actors import ExplainActor
from phalanx.protocol.requests.cluster import GetHealth
from phalanx.protocol.requests.gangs import Explain, GetRules, ListCycles, ShowPlan, TakeSnapshot
from phalanx.protocol.requests.health import ListDevices
from phalanx.protocol.requests.jobs import GetJob, GetMemberUse, ListElements, ReadJobLog
from phalanx.protocol.requests.node_use import GetNodeUse, ListNodesInUse
from phalanx.protocol.requests.state import QueryState

NAV = (
    ("/", "Overview"),
    ("/nodes", "Nodes"),
    ("/queues", "Queues"),
    ("/jobs", "Jobs"),
    ("/plan", "Plan"),
    ("/what-if", "What if"),
    ("/work", "Tasks and actors"),
    ("/objects", "Objects"),
    ("/history", "History"),
    ("/events", "Events"),
    ("/decisions", "Decisions"),
    ("/health", "Health"),
)
STILL = frozenset({"/what-if", "/history"})
"""The pages without live updates, because their answers cost the head too much."""


class NoSuchPageError(LookupError):
    """Raised for an address without a page, or an address that names something that does not
    exist.
    """


class View(NamedTuple):
    """A page with all its data, ready to be written as HTML."""

    template: str
    title: str
    command: str
    """The command that prints the same data."""
    page: Any
    """The data that the template shows."""
    more: dict[str, Any]
    """Additional values for the template."""


Build = Callable[["Views", ClusterSnapshot, Mapping[str, str], Mapping[str, str]], Awaitable[View]]


class Views:
    """The builder of all pages."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._supposing = WhatIf()

    async def build(self, path: str, query: Mapping[str, str], snapshot: ClusterSnapshot) -> View:
        """Return the page at a path. Raises NoSuchPageError, and errors that the head answers."""
        for pattern, build in _PAGES:
            found = re.fullmatch(pattern, path)
            if found is not None:
                return await build(self, snapshot, found.groupdict(), query)
        raise NoSuchPageError("There is no such page.")

    async def _overview(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        page = overview.overview(snapshot, self._watch.series, snapshot.at, query.get("span", ""))
        return View("overview.html", "Overview", "phalanx status", page, {})

    async def _jobs(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        page = jobs.jobs(snapshot, query)
        filters = page.listed.asked.filters
        named = [name for name in ("queue", "state") if name in filters]
        said = "".join(f" --{name} {filters[name]}" for name in named)
        return View("jobs.html", "Jobs", f"phalanx jobs{said}", page, {})

    async def _job(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        name = f"{parts['namespace']}/{parts['name']}"
        try:
            job = await self._watch.ask(GetJob(name))
            why = None
            if job.state == st.PENDING or job.pending:
                why = await self._watch.shared(Explain(name), snapshot.version)
        except JobNotFoundError as error:
            raise NoSuchPageError(str(error)) from None
        short = job.name if job.namespace == "default" else name
        more = {"names": _names(snapshot), "path": f"/jobs/{parts['namespace']}/{parts['name']}"}
        steps = events.steps_of(snapshot, job)
        array = None
        if job.array:
            try:
                rows = await self._watch.shared(ListElements(name), snapshot.version)
                array = arrays.array_grid(rows, query)
            except PhalanxError:
                pass  # a record has no array tasks; the page says how to list them
        uses = await self._uses(snapshot, job)
        last = await self._last_lines(snapshot, job)
        reason = why if why is not None and why.waits else None
        page = jobs.job_page(job, reason, steps, array, uses, last)
        return View("job.html", short, f"phalanx job {short}", page, more)

    async def _uses(
        self, snapshot: ClusterSnapshot, job: JobDescription
    ) -> list[member_use.DrawnMember]:
        found = []
        for member in member_use.drawn_members(job):
            asked = GetMemberUse(f"{job.namespace}/{job.name}", member.name)
            try:
                use = await self._watch.shared(asked, snapshot.version)
            except PhalanxError:  # the member has just ended, or a record is shown
                continue
            one = member_use.drawn(member, use, snapshot.at)
            if one is not None:
                found.append(one)
        return found

    async def _last_lines(
        self, snapshot: ClusterSnapshot, job: JobDescription
    ) -> jobs.LastLines | None:
        """Ask for the end of the output of the member that failed first."""
        member = jobs.first_failed(job)
        if member is None:
            return None
        name = f"{job.namespace}/{job.name}"
        try:
            end = ReadJobLog(name, member.name, -1, 1 << 62)
            size = (await self._watch.shared(end, snapshot.version)).size
            asked = ReadJobLog(name, member.name, -1, max(size - jobs.LAST_BYTES, 0))
            part = await self._watch.shared(asked, snapshot.version)
        except (OSError, PhalanxError):  # the node is away, or a record is shown
            return None
        return jobs.last_lines(member.name, plain_text(part.data))

    async def _nodes(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        try:
            in_use = await self._watch.shared(ListNodesInUse(), snapshot.version)
        except PhalanxError:  # an older record has no such answer
            in_use = {}
        page = nodes.nodes(snapshot, query, in_use)
        return View("nodes.html", "Nodes", "phalanx nodes", page, {"gauges": nodes.gauges_of})

    async def _node(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        page = nodes.node_page(snapshot, parts["node"])
        if page is None:
            raise NoSuchPageError(f"There is no node {parts['node']}.")
        if page.devices:
            seen = await self._watch.shared(ListDevices(), snapshot.version)
            page = nodes.node_page(snapshot, page.node.node_id, seen) or page
        name = device_map.name_of(page.node)
        is_only = list(_names(snapshot).values()).count(name) == 1
        command = f"phalanx get nodes {shlex.quote(name) if is_only else page.node.node_id}"
        more = {
            "happened": events.of_node(snapshot, page.node.node_id),
            "names": _names(snapshot),
            "path": f"/nodes/{page.node.node_id}",
        }
        use = await self._node_use(snapshot, page.node.node_id, node_use.span_of(query))
        page = msgspec.structs.replace(page, use=use)
        return View("node.html", name, command, page, more)

    async def _node_use(
        self, snapshot: ClusterSnapshot, node_id: str, span: str
    ) -> node_use.NodeUsePage | None:
        """Ask a node for its usage; None if it does not answer."""
        asked = GetNodeUse(node_id, SPANS_S[span])
        try:
            use = await self._watch.shared(asked, snapshot.version)
        except (PhalanxError, ValueError):  # the node is away, or a record is shown
            return None
        return node_use.node_use(use, snapshot.at, span)

    async def _queues(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        return View("queues.html", "Queues", "phalanx queue list", queues.queues(snapshot), {})

    async def _queue(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        name, span = parts["queue"], query.get("span", "")
        page = queues.queue_page(snapshot, self._watch.series, name, snapshot.at, span)
        if page is None:
            raise NoSuchPageError(f"There is no queue {name}.")
        more = {"path": f"/queues/{name}"}
        return View("queue.html", f"Queue {name}", f"phalanx queue get {name}", page, more)

    async def _plan(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        found = await self._watch.shared(ShowPlan(), snapshot.version)
        page = plan.plan_page(found, snapshot, query.get("range", ""))
        return View("plan.html", "Plan", "phalanx plan", page, {"names": _names(snapshot)})

    async def _work(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        tasks, last, failures, classes = [await self._state(one, snapshot) for one in work.QUERIES]
        names, span = _names(snapshot), query.get("range", "")
        each = await self._actors(snapshot, query)
        page = work.work(tasks, last, failures, classes, names, snapshot.at, span, each)
        more = {"asked": actors.asked_for(query)}
        return View("work.html", "Tasks and actors", "phalanx summary tasks", page, more)

    async def _actors(
        self, snapshot: ClusterSnapshot, query: Mapping[str, str]
    ) -> actors.ActorList | None:
        try:
            drivers = await self._state(actors.DRIVERS, snapshot)
            try:
                listed = await self._state(actors.query(query), snapshot)
            except NotRecordedError:  # a record has only the actors in all states
                listed = await self._state(actors.ACTORS, snapshot)
        except NotRecordedError:  # an older record has no such answer
            return None
        return actors.actors(listed, drivers, _names(snapshot), snapshot.at, query)

    async def _task(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        task = parts["task"]
        try:
            own = await self._state(task_story.attempts_of(task), snapshot)
            children = await self._state(task_story.children_of(task), snapshot)
            page = task_story.task_story(own.part.rows, children.part.counts)
        except NotRecordedError:  # a record has the last attempts alone
            last = await self._state(task_stream.STREAM, snapshot)
            rows = [row for row in last.part.rows if row.get("task_id") == task]
            page = task_story.task_story(rows, [])
        if page is None:
            raise NoSuchPageError(f"No process remembers a task {task}.")
        if page.is_waiting and page.actor:
            page = msgspec.structs.replace(page, why=await self._why_actor(page.actor, snapshot))
        more = {"names": _names(snapshot)}
        return View("task.html", page.function, f"phalanx get tasks {task}", page, more)

    async def _why_actor(self, actor: str, snapshot: ClusterSnapshot) -> Explanation | None:
        """Return the head's explanation why an actor waits; None if the actor does not wait, or if
        the head cannot explain it. The head is never asked about a task, because only the task's
        own program knows why it waits.
        """
        try:
            why = await self._watch.shared(ExplainActor(actor), snapshot.version)
        except PhalanxError:  # the actor has just ended, or a record is shown
            return None
        return why if why.waits else None

    async def _objects(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        found = [await self._state(one, snapshot) for one in objects.QUERIES]
        page = objects.objects(*found)
        return View("objects.html", "Objects", "phalanx memory", page, {"names": _names(snapshot)})

    async def _state(self, query: StateQuery, snapshot: ClusterSnapshot) -> StateAnswer:
        answer = await self._watch.shared(QueryState(query), snapshot.version)
        if not answer.silent:
            return answer
        names = _names(snapshot)
        silent = [with_names(text, names) for text in answer.silent]
        return StateAnswer(answer.part, silent)

    async def _decisions(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        found = await self._watch.shared(ListCycles(), snapshot.version)
        page = decisions.decisions(found)
        return View("decisions.html", "Decisions", "phalanx scheduler cycles -n 200", page, {})

    async def _cycle(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        number = int(parts["number"])
        try:
            found = await self._watch.shared(ListCycles(number), snapshot.version)
        except JobNotFoundError as error:
            raise NoSuchPageError(str(error)) from None
        page = decisions.cycle_page(snapshot, found)
        command, more = f"phalanx scheduler cycle {number}", {"names": _names(snapshot)}
        return View("cycle.html", f"Cycle {number}", command, page, more)

    async def _health(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        shared = self._watch.shared
        page = health(
            await shared(GetHealth(), snapshot.version),
            snapshot.status,
            await shared(GetRules(), snapshot.version),
            [one for one in snapshot.events if one.kind == "rules-refused"],
            now=snapshot.at,
            version=__version__,
            protocol=PROTOCOL_VERSION,
        )
        return View("health.html", "Health", "phalanx health", page, {})

    async def _events(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        page = events.events(snapshot, query)
        more = {"names": _names(snapshot), "spans": list(events.SPANS)}
        command = events.command(page.listed.asked.filters)
        return View("events.html", "Events", command, page, more)

    async def _history(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        asked = history.asked(query)
        usage = GetUsage(asked.usage(snapshot.at))
        found = await self._watch.shared(usage, snapshot.version)
        last = ListAttempts(asked.attempts(snapshot.at))
        attempts = await self._watch.shared(last, snapshot.version)
        page = history.history(asked, found, attempts)
        said = "".join(
            f" --{name} {shlex.quote(value)}"
            for name, value in (("user", asked.user), ("queue", asked.queue))
            if value
        )
        command = f"phalanx report --since {asked.period} --by {asked.by}{said}"
        return View("history.html", "History", command, page, {"periods": list(history.DAYS)})

    async def _what_if(
        self, snapshot: ClusterSnapshot, parts: Mapping[str, str], query: Mapping[str, str]
    ) -> View:
        found, wrong = None, ""
        try:
            supposed = what_if.supposition(query)
            if not supposed.is_empty:
                supposed = with_ids(supposed, snapshot.status.nodes)
                taken = await self._watch.shared(TakeSnapshot(True), snapshot.version)
                found = await self._supposing.ask(taken, supposed)
        except (ValueError, TimeoutError) as error:
            wrong = str(error)
            for node_id, name in _names(snapshot).items():
                wrong = wrong.replace(node_id, name)
        page = what_if.what_if(snapshot, query, found, wrong)
        more = {"most": what_if.MAX_MANIFEST}
        return View("what_if.html", "What if", what_if.command(query), page, more)


def _names(snapshot: ClusterSnapshot) -> dict[str, str]:
    return {row.node_id: device_map.name_of(row) for row in snapshot.status.nodes}


_PAGES: tuple[tuple[str, Build], ...] = (
    (r"/", Views._overview),
    (r"/jobs", Views._jobs),
    (r"/jobs/(?P<namespace>[^/]+)/(?P<name>[^/]+)", Views._job),
    (r"/nodes", Views._nodes),
    (r"/nodes/(?P<node>[^/]+)", Views._node),
    (r"/queues", Views._queues),
    (r"/queues/(?P<queue>[^/]+)", Views._queue),
    (r"/plan", Views._plan),
    (r"/work", Views._work),
    (r"/work/(?P<task>[0-9a-f]{8,80})", Views._task),
    (r"/objects", Views._objects),
    (r"/history", Views._history),
    (r"/events", Views._events),
    (r"/health", Views._health),
    (r"/decisions", Views._decisions),
    (r"/decisions/(?P<number>[0-9]{1,15})", Views._cycle),
    (r"/what-if", Views._what_if),
)

"""Renders pages as HTML, and finds the parts that have changed since a page was sent. A template
marks a part that may change with `{% call piece("id") %}`. The HTML of such a piece is one element
with this id. A row of a table also names the element that contains it: `{% call piece("id", "rows")
%}`. Parts outside of pieces do not change while a page is open.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from phalanx.dashboard.pages import metrics, plan, task_stream
from phalanx.dashboard.plots import chart_svg
from phalanx.dashboard.static_files import static_path
from phalanx.model import lifecycle
from phalanx.model.readable import amount, duration, ranges, size
from phalanx.model.rows.cluster import given_labels
from phalanx.model.rows.work import JobInfo
from phalanx.observe.events import details, subject, user_of
from phalanx.observe.job_times import is_running, ran_s

_MARKS = {
    "Running": "run", "Completed": "done", "Pending": "wait", "Failed": "bad", "TimeOut": "bad",
    "Preparing": "wait",
    "Deadline": "bad", "DependencyFailed": "bad", "Terminated": "off", "Aborted": "off",
    "alive": "run", "draining": "wait", "dead": "bad", "Open": "run", "Closed": "off",
    "Closing": "wait", "Succeeded": "done", "began": "run", "placed": "run", "placing": "run",
    "ended": "done", "preempted": "bad", "reclaimed": "bad", "evicted": "bad", "lost": "bad",
    "element-failed": "bad", "node-lost": "bad", "node-away": "wait", "node-drained": "wait",
    "node-refused": "bad",
    "node-joined": "run", "node-back": "run", "rules-refused": "bad", "defect": "bad",
    "device-bad": "bad", "device-suspect": "wait", "device-well": "run", "device-cordoned": "wait",
    "device-uncordoned": "run", "node-held": "wait", "node-released": "run",
    "node-left": "off",
    "ok": "run", "suspect": "wait", "closed": "off", "well": "run", "look": "wait",
    "bad": "bad", "promised": "wait", "left": "wait",
    "Ended": "off", "Waiting": "wait", "Blocked": "wait", "Terminating": "off",
    "Restarting": "wait", "Aborting": "off", "Completing": "done",
    "waits": "wait", "held": "wait", "suspended": "off",
    "RUNNING": "run", "FINISHED": "done", "FAILED": "bad",
    "ALIVE": "run", "RESTARTING": "wait", "DEAD": "off",
}  # fmt: skip
"""The CSS class, by state, of the sign next to a state. Signs never differ by colour alone."""


_MOVING = re.compile(r'(data-since="[^"]*">)[^<]*')
"""Matches a duration, such as 5m, that a script in the page keeps up to date. The group is the
attribute before the duration, with the time from which the script counts.
"""


class Pieces(msgspec.Struct):
    """The pieces of a page: their HTML by id, and the ids in each container."""

    html: dict[str, str]
    order: dict[str, list[str]]

    def changes_since(self, before: Pieces) -> dict[str, Any]:
        """Return the changes from `before` to these pieces; empty when nothing has changed."""
        new = {
            key: html
            for key, html in self.html.items()
            if before.html.get(key) != html and _still(before.html.get(key, "")) != _still(html)
        }
        order = {where: ids for where, ids in self.order.items() if before.order.get(where) != ids}
        return {"set": new, "order": order} if new or order else {}


def _still(html: str) -> str:
    """Return HTML without the durations that a script in the page keeps up to date."""
    return _MOVING.sub(r"\1", html)


class Renderer:
    """The templates and their filters."""

    def __init__(self) -> None:
        self._env = Environment(
            loader=PackageLoader("phalanx.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._env.filters |= {
            "ago": _moment,
            "amount": amount,
            "amounts": metrics.amounts_text,
            "span": duration,
            "brief": lambda seconds: "" if seconds is None else task_stream.brief(seconds),
            "size": size,
            "ranges": ranges,
            "ms": lambda seconds: (
                f"{1000 * seconds:.2f} ms" if seconds < 1 else task_stream.brief(seconds)
            ),
            "mark": mark,
            "given_labels": given_labels,
            "ran": ran,
            "sign": lambda state: _MARKS.get(state, "plain"),
            "key": key,
            "breakable": breakable,
            "state_words": state_words,
            "marked_words": marked_words,
            "error_words": error_words,
            "chart": lambda one: chart_svg(one, metrics.rounded),
            "subject": subject,
            "details": details,
            "user_of": user_of,
        }
        self._env.globals["static_path"] = static_path()
        self._env.globals["how"] = lambda start: plan.WORDS[plan.how(start)]

    def page(self, template: str, **values: Any) -> tuple[str, Pieces]:
        """Return the HTML of a whole page, and its pieces."""
        pieces = Pieces({}, {})
        html = self._env.get_template(template).render(piece=_recorder(pieces), **values)
        return html, pieces


def _recorder(pieces: Pieces) -> Callable[..., Markup]:
    def piece(key: str, where: str = "", *, caller: Callable[[], str]) -> Markup:
        html = str(caller()).strip()
        pieces.html[key] = html
        if where:
            pieces.order.setdefault(where, []).append(key)
        return Markup(html)

    def container(where: str) -> str:
        """Note that a container exists, because it may have no rows. Returns its id."""
        pieces.order.setdefault(where, [])
        return where

    piece.container = container  # type: ignore[attr-defined]
    return piece


def key(text: str) -> str:
    """Return an HTML id for a name; different names have different ids."""
    return re.sub(r"[^A-Za-z0-9-]", lambda found: f"_{ord(found[0]):x}_", text)


def breakable(name: str) -> Markup:
    """Return a long name in which a line may be broken after each underscore."""
    return Markup("_<wbr>").join(name.split("_"))


_STATE_WORDS = {
    lifecycle.PENDING_ARGS: "waiting for arguments",
    lifecycle.DEPENDENCIES_UNREADY: "waiting for arguments",
    lifecycle.PENDING_NODE: "waiting for a node",
    lifecycle.PENDING_CREATION: "waiting for a node",
    lifecycle.SUBMITTED: "sent to a worker",
    "NIL": "",
}


def state_words(state: str) -> str:
    """Return the state of a task, an actor or an object in plain words."""
    return _STATE_WORDS.get(state, state.lower().replace("_", " "))


_ERROR_WORDS = {
    "TASK_EXECUTION_EXCEPTION": "raised an exception",
    "ACTOR_DIED": "its actor died",
    "ACTOR_UNAVAILABLE": "its actor did not answer",
    "WORKER_DIED": "its process died",
    "NODE_DIED": "its node died",
    "OUT_OF_MEMORY": "used too much memory",
    "TASK_CANCELLED": "was cancelled",
    "TASK_UNSCHEDULABLE_ERROR": "no node could run it",
}
"""Plain words for each kind of error. The keys are Ray's names, which commands print."""


def error_words(kind: str) -> str:
    """Return how a task failed, in plain words."""
    return _ERROR_WORDS.get(kind, kind.lower().replace("_", " "))


def marked_words(state: str) -> Markup:
    """Return the state of a task in plain words, with its sign."""
    sign = _MARKS.get(state, "wait" if state_words(state).startswith("waiting") else "plain")
    return Markup('<span class="state {}">{}</span>').format(sign, state_words(state))


def mark(state: str) -> Markup:
    """Return a state with its sign."""
    return Markup('<span class="state {}">{}</span>').format(_MARKS.get(state, "plain"), state)


def ran(job: JobInfo) -> Markup:
    """Return the time for which a job has run, and its time limit. For a running job, a script in
    the page keeps the time up to date.
    """
    run_s = ran_s(job)
    said = duration(run_s)
    if is_running(job):
        begun = job.submitted + job.age_s - run_s
        html = Markup('<span data-since="{}">{}</span>').format(f"{begun:.0f}", said)
    elif run_s:
        html = Markup("{}").format(said)
    else:
        return Markup("")
    limit_s = None if job.array else job.time_limit_s  # it applies to each array task
    limit = "" if limit_s is None else f" of {duration(limit_s)}"
    return html + Markup("{}").format(limit)


def _moment(at: float | None) -> Markup:
    """Return a moment as a `time` element; a script in the page shows how long ago it was."""
    if at is None:
        return Markup("")
    try:
        when = datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return escape(f"{at:g} s")
    return Markup('<time datetime="{}" data-at="{}">{}</time>').format(
        when.isoformat(timespec="seconds"), f"{at:.0f}", when.strftime("%Y-%m-%d %H:%M:%S UTC")
    )

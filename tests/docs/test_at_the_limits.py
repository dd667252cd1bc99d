"""Each limit of docs/reference/limits.md on the size of something that users give: a value at the
limit is accepted, and one above it is refused with a message that names both numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import msgspec
import pytest

from phalanx.api.gangs import GangOptions
from phalanx.api.job import Job
from phalanx.errors import TaskError
from phalanx.manifests import text
from phalanx.manifests.check import read_for_submit
from phalanx.manifests.licenses import license_fault, licenses_of
from phalanx.manifests.names import label_fault, object_fault, subdomain_fault
from phalanx.manifests.patterns import pattern_fault
from phalanx.manifests.quantities import quantity
from phalanx.manifests.queue_rules import KnownQueue, QueueTree, queue_faults
from phalanx.manifests.reservations import reservation_faults
from phalanx.model.options import check_amounts, check_task_options
from phalanx.model.reservations import Reservation
from phalanx.objects import failures
from phalanx.objects.serialization import dumps_definition
from phalanx.observe.state.query import StateQuery, check_query
from phalanx.owner import requests
from phalanx.protocol import frames, framing
from phalanx.protocol.asking import Ask
from phalanx.protocol.requests.actors import GetActor
from phalanx.scheduler.cycle import documents
from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import QueueSpec

from .test_limits import ROWS, constant

Try = Callable[[Any], object]
"""Tries a value of this size. Raises the refusal, or returns its text."""


def _definition(size: int) -> None:
    ballast = size - len(cloudpickle.dumps(bytes(size), protocol=5)) + size
    dumps_definition(bytes(ballast), "f")


def _message(size: int) -> Ask:
    """Return a message whose frame has this number of bytes."""
    length = len(frames.encode_frame([Ask(1, 1, _raw(size // 2))])) - framing.HEADER_BYTES
    return Ask(1, 1, _raw(size // 2 + size - length))


def _raw(size: int) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(b"x" * size))


def _request(size: int) -> str | None:
    sent: list[Any] = []
    answers: list[Any] = []

    class Node:
        post = staticmethod(sent.append)

    ballast = size - len(msgspec.msgpack.encode(GetActor("n" * size, "s"))) + size
    node: Any = Node()
    requests.Requests(node).call_async(GetActor("n" * ballast, "s"), answers.append)
    if sent:
        return None
    with pytest.raises(Exception) as caught:
        answers[0]()
    return str(caught.value)


def _stranger(size: int) -> None:
    reader = frames.FrameReader(first_limit=framing.STRANGERS_FRAME_BYTES)
    reader.feed(size.to_bytes(framing.HEADER_BYTES, "big"))


def _exception(size: int) -> str | None:
    small = len(failures._pickle_cause(ValueError("x" * 1000)) or b"")
    found = failures.load(failures.describe(ValueError("x" * (1000 + size - small)), "f", 1))
    assert isinstance(found, TaskError)
    return None if isinstance(found.cause, ValueError) else str(found)


def _exception_text(size: int) -> str | None:
    found = failures._shortened("x" * size)
    return None if found == "x" * size else found


def _cron(length: int) -> None:
    pod = "{spec: {containers: [{name: c, command: ['true']}]}}"
    job = f"{{tasks: [{{name: t, replicas: 1, template: {pod}}}]}}"
    read_for_submit(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\n"
        f"metadata: {{name: {'c' * length}}}\n"
        f"spec: {{schedule: '@daily', jobTemplate: {{spec: {job}}}}}\n"
    )


def _replicas(count: int) -> None:
    pod = "{spec: {containers: [{name: c, command: ['true']}]}}"
    read_for_submit(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\n"
        f"spec: {{tasks: [{{name: t, replicas: {count}, template: {pod}}}]}}\n"
    )


def _queue_levels(depth: int) -> str | None:
    chain = [QueueSpec(name=f"q{i}", parent=f"q{i - 1}" if i else "root") for i in range(depth)]
    tree = QueueTree([KnownQueue(spec=q) for q in (QueueSpec(name="root"), *chain[:-1])])
    return "; ".join(fault.reason for fault in queue_faults(chain[-1], tree)) or None


def _weight(weight: int) -> str | None:
    return (
        "; ".join(f.reason for f in queue_faults(QueueSpec(name="q", weight=weight), None)) or None
    )


def _steps(count: int) -> None:
    path = "root" + "/q" * count
    queue = f"{{name: q, weight: 1, hierarchy_path: {path}}}"
    read_snapshots(
        f"{{format: phalanx-snapshot/1, config: {{actions: [allocate]}}, queues: [{queue}]}}",
        known_plugins(),
    )


def _reservation(**fields: Any) -> str | None:
    faults = reservation_faults(Reservation(name="r", **fields))
    return "; ".join(reason for _, reason in faults) or None


def _values(count: int) -> None:
    """Read a document that counts as `count` values. It has a mapping, and a list that occurs
    twice. A mapping or list counts as one value more than its members.
    """
    half, rest = divmod(count - 5, 2)
    documents.Document(f"a: &a [{'1,' * half}]\nb: *a\n{'c: 1' * rest}")


class Limit(NamedTuple):
    """How one limit is tried. Each row of the page has such a limit."""

    attempt: Try
    words: str
    """The pattern of the refusal of a value above the limit. {value} and {limit} stand for the two
    numbers.
    """
    patched: tuple[Any, str, int] | None = None
    """A smaller limit that replaces the constant, if the real limit would cost too much."""
    step: float = 1
    way: str = ""


TRIED: dict[str, list[Limit]] = {
    "objects.serialization.DEFINITION_BYTES": [
        Limit(_definition, "f is too large .* it is {value} bytes .* definition is {limit}")
    ],
    "protocol.frames.MAX_FRAME_BYTES": [
        Limit(
            lambda size: frames.encode_frame([_message(size)]),
            "a frame of {value} bytes is above the limit of {limit}",
            (frames, "MAX_FRAME_BYTES", 10_000),
        )
    ],
    "owner.requests.REQUEST_BYTES": [
        Limit(
            _request,
            "GetActor cannot be asked: it is {value} bytes, and the limit of .* {limit}",
            (requests, "REQUEST_BYTES", 1000),
        )
    ],
    "protocol.framing.STRANGERS_FRAME_BYTES": [Limit(_stranger, "{value} bytes .* {limit}")],
    "objects.failures.EXCEPTION_BYTES": [
        Limit(
            _exception,
            "the exception has {value} bytes, and the limit is {limit}",
            (failures, "EXCEPTION_BYTES", 2000),
        )
    ],
    "objects.failures.EXCEPTION_TEXT_CHARS": [
        Limit(_exception_text, "1 of {value} characters: the limit is {limit}")
    ],
    "manifests.text.MAX_BYTES": [
        Limit(lambda n: text.load("#" * n), "this has {value} bytes; .* at most {limit}")
    ],
    "manifests.text.MAX_NODES": [
        Limit(lambda n: text.load(f"[{'0,' * (n - 1)}]"), "line 1: .*more than {limit} values")
    ],
    "manifests.text.MAX_DOCUMENTS": [
        Limit(lambda n: text.load("--- 1\n" * n), "line {value}: .*more than {limit} documents")
    ],
    "manifests.text.MAX_DEPTH": [
        Limit(lambda n: text.load("[" * n + "]" * n), "line 1: .*more than {limit} levels")
    ],
    "manifests.text.MAX_DIGITS": [
        Limit(lambda n: text.load("0" * n), "line 1: 0{{20}}... is not between -2.63 and 2.63")
    ],
    "scheduler.cycle.documents.MAX_VALUES": [
        Limit(
            _values,
            "more than {limit} values",
            (documents, "MAX_VALUES", 100),
        )
    ],
    "model.jobs.arrays.MAX_ELEMENTS": [
        Limit(
            lambda n: Job("true", array=f"1-{n}"),
            "has 1,000,001 array tasks; at most 1,000,000 are allowed",
        )
    ],
    "model.jobs.arrays.MAX_INDEX": [
        Limit(lambda n: Job("true", array=str(n)), "is at most 2,147,483,647, not 2,147,483,648")
    ],
    "model.jobs.spec.MAX_REPLICAS": [
        Limit(
            lambda n: Job("true", members=n),
            "members={value}: it must be at most {limit}",
            way="Job",
        ),
        Limit(lambda n: GangOptions(members=n), "size is at most {limit}, not {value}", way="gang"),
        Limit(_replicas, "replicas must be at most {limit}, not {value}", way="manifest"),
    ],
    "manifests.names.MAX_LABEL": [
        Limit(
            lambda n: object_fault("Job", "n" * n, "s"),
            "'n+' .* up to {limit} ",
            way="job",
        ),
        Limit(
            lambda n: object_fault("Job", "j", "s" * n),
            "namespace 's+' .* up to {limit} ",
            way="namespace",
        ),
        Limit(
            lambda n: label_fault("t" * n), "'t+' is not a valid name: up to {limit}", way="task"
        ),
        Limit(
            lambda n: Job("true", name="n" * (n - 9)), "n-worker-0' .* up to {limit}", way="member"
        ),
    ],
    "manifests.names.MAX_SUBDOMAIN": [
        Limit(
            lambda n: subdomain_fault("q" * n), r"\({value}\) is not a valid name: up to {limit}"
        ),
    ],
    "manifests.flows.MAX_CRON_NAME": [Limit(_cron, "at most {limit} characters, not {value}")],
    "manifests.patterns.MAX_PATTERN": [
        Limit(lambda n: pattern_fault("a" * n), "up to {limit} characters, not {value}")
    ],
    "manifests.queue_rules.MAX_DEPTH": [
        Limit(_queue_levels, "stand {value} levels below root; at most {limit} are allowed")
    ],
    "scheduler.cycle.reading.DEEPEST": [Limit(_steps, "at most {limit} steps, not {value}")],
    "model.options.LARGEST_AMOUNT": [
        Limit(lambda n: check_amounts({"x": n}), "{value} of 'x' .* at most {limit}"),
        Limit(
            lambda n: check_task_options({"num_cpus": n}), "num_cpus.* at most {limit}", way="task"
        ),
    ],
    "model.options.MIN_SHARE": [
        Limit(lambda n: check_amounts({"x": n}), "{value} of 'x' .* at least {limit}", step=-1e-5)
    ],
    "manifests.quantities.LARGEST": [
        Limit(lambda n: quantity(str(n)), "{value} is more than the largest amount, 2.63")
    ],
    "model.options.LARGEST_NUMBER": [
        Limit(
            lambda n: Job("true", priority=n),
            "priority={value}: it must be at most {limit}",
            way="Job",
        ),
        Limit(lambda n: check_task_options({"priority": n}), "priority.*{limit}", way="task"),
        Limit(_weight, "a weight must be at most {limit}, not {value}", way="weight"),
    ],
    "observe.state.query.MAX_LIMIT": [
        Limit(
            lambda n: check_query(StateQuery("tasks", limit=n)),
            "limit {value} exceeds the supported limit {limit}",
        )
    ],
    "model.reservations.MAX_NAMED": [
        Limit(
            lambda n: _reservation(nodes=("n",), users=("u",) * n),
            "at most {limit} are allowed, not {value}",
        )
    ],
    "model.reservations.MAX_COUNT": [
        Limit(
            lambda n: _reservation(node_count=n),
            "it must be 1 to {limit}, not {value}",
            way="nodes",
        ),
        Limit(lambda n: license_fault("l", n), "from 0 to {limit}, not '{value}'", way="licenses"),
    ],
    "manifests.licenses.MAX_KINDS": [
        Limit(
            lambda n: licenses_of({f"l{i}": 1 for i in range(n)}),
            "at most {limit} kinds of licenses, not {value}",
        )
    ],
    "model.jobs.timing.LONGEST_S": [
        Limit(
            lambda n: Job("true", time_limit_s=n), "time_limit_s={value}: it must be .* to {limit}"
        ),
        Limit(lambda n: Job("true", time=f"{n:.0f}s"), "more than 0 and at most {limit} s"),
    ],
}

ELSEWHERE = {
    "head.rights.audit.MAX_LATEST": "tests/unit/head/rights/test_most.py",
    "head.rights.tokens.MOST": "tests/unit/head/rights/test_most.py",
    "manifests.people_lists.MOST": "tests/unit/head/rights/test_most.py",
    "model.user_limits.MOST_USERS": "tests/unit/head/rights/test_most.py",
    "runtime.os.connection_loop.MOST_OF_A_USER": "tests/system/people/test_shared_cluster.py",
    "head.shares.usage_ledger.MAX_BOOKS": "tests/unit/head/test_shares.py",
    "head.shares.control.MAX_SHARES": "tests/unit/head/test_shares.py",
    "dashboard.pages.what_if.MAX_MANIFEST": "tests/unit/dashboard/test_app.py",
    "dashboard.what_if.AT_ONCE": "tests/unit/dashboard/test_app.py",
    "dashboard.what_if.PATIENCE_S": "tests/unit/dashboard/test_app.py",
    "head.gangs.rules.MAX_VALUES": "tests/unit/head/gangs/test_rules.py",
    "head.gangs.rules.MAX_BYTES": "tests/unit/head/gangs/test_rules.py",
    "model.reservations.MAX_RESERVATIONS": "tests/unit/head/test_reservations.py",
    "head.reservations.record.WINDOWS": "tests/unit/head/test_reservations.py",
    "head.reservations.licenses.MAX_LICENSES": "tests/unit/head/test_reservations.py",
    "runtime.os.job_files.LOG_BYTES": "tests/unit/head/gangs/test_members_on_node.py",
    "node.kept_logs.KEPT_S": "tests/unit/node/test_kept_logs.py",
    "node.followed_logs.MOST_UNREAD_BYTES": "tests/unit/node/test_followed_logs.py",
    "head.jobs.retention.KEPT": "tests/unit/head/jobs/test_retention.py",
    "head.jobs.retention.KEPT_S": "tests/unit/head/jobs/test_retention.py",
    "protocol.resumable.MESSAGE_BYTES": "tests/unit/protocol/test_resumable.py",
    "api.clients.RECONNECT_S": "tests/unit/api/test_clients.py",
    "runtime.gateway.turns.AT_ONCE": "tests/system/gateway/test_turns.py",
    "runtime.gateway.turns.AT_ONCE_OF_ADDRESS": "tests/system/gateway/test_turns.py",
    "runtime.gateway.turns.WAITING": "tests/system/gateway/test_turns.py",
    "observe.state.query.MAX_COUNTED": "tests/unit/observe/test_state_queries.py",
    "head.log_reading.MAX_READING": "tests/unit/head/test_log_reading.py",
    "cli.process_output.MAX_TAIL": "tests/system/cli/test_logs.py",
    "head.state_queries.MAX_ROUNDS": "tests/unit/head/test_state_queries.py",
    "node.process_history.KEEP_ENDED": "tests/unit/node/test_state_reports.py",
    "head.key_values.VALUE_BYTES": "tests/unit/head/test_key_values.py",
    "head.key_values.TABLE_BYTES": "tests/unit/head/test_key_values.py",
    "head.nodes.directory.KEEP_DEAD": "tests/unit/head/test_nodes.py",
    "head.groups.table.KEEP_REMOVED": "tests/unit/head/test_groups.py",
    "model.jobs.records.KEEP_TRANSITIONS": "tests/unit/head/jobs/test_lifecycle.py",
    "model.jobs.dependencies.MAX_DEPENDENCIES": "tests/unit/head/jobs/test_dependencies.py",
    "model.jobs.arrays.MAX_RANGES": "tests/unit/manifests/test_arrays.py",
    "head.jobs.arrays.WINDOW": "tests/unit/head/gangs/test_arrays.py",
    "protocol.requests.jobs.MAX_ROWS": "tests/unit/head/gangs/test_arrays.py",
    "model.jobs.timing.DEFAULT_REQUEUES": "tests/unit/head/jobs/test_time_limits.py",
    "adapters.slurm.script.MAX_SCRIPT_BYTES": "tests/unit/adapters/test_slurm.py",
    "adapters.slurm.request.MAX_TASKS": "tests/unit/adapters/test_slurm.py",
    "node.job_members.MAX_STEPS": "tests/unit/head/gangs/test_steps_on_node.py",
    "adapters.ray.jobs.routes.PACKAGE_BYTES": "tests/unit/adapters/test_job_server.py",
    "observe.accounting.questions.MAX_ATTEMPTS": "tests/unit/observe/test_accounting.py",
    "observe.accounting.questions.MAX_NAMES": "tests/unit/observe/test_accounting.py",
    "observe.accounting.series.KEPT": "tests/unit/observe/test_accounting.py",
    "dashboard.record.MAX_JOBS": "tests/unit/dashboard/test_record.py",
    "dashboard.record.MAX_EXPLAINED": "tests/unit/dashboard/test_record.py",
    "dashboard.record.MAX_BYTES": "tests/unit/dashboard/test_record.py",
    "head.gangs.cycle_log.KEEP_CYCLES": "tests/unit/head/gangs/test_cycle_log.py",
    "head.time_series.MAX_SERIES": "tests/unit/head/gangs/test_numbers_over_time.py",
    "scheduler.cycle.session.CHOICES": "tests/unit/scheduler/cycle/test_choices.py",
    "head.gangs.cycle_log.NAMED": "tests/unit/head/gangs/test_cycle_log.py",
    "head.events.event_log.KEEP_OF_JOBS": "tests/unit/head/test_events.py",
    "head.events.event_log.KEEP_OTHERS": "tests/unit/head/test_events.py",
    "head.events.jobs.MOST_OF_ARRAY": "tests/unit/head/test_events.py",
    "observe.events.MAX_EVENTS": "tests/unit/head/test_events.py",
    "head.accounting.records.MAX_TEXT": "tests/unit/head/gangs/test_attempt_records.py",
    "runtime.head.ledger_thread.MAX_QUESTIONS": "tests/unit/storage/test_ledger_thread.py",
    "runtime.head.ledger_thread.MAX_WAITING": "tests/unit/storage/test_ledger_thread.py",
    "node.broadcasts.AT_ONCE": "tests/unit/node/test_broadcasts.py",
}
"""The test files that try the other limits, by limit."""

_OLDEST_GO = "nothing is refused above it: the oldest go"
_OTHER_WAY = "nothing is refused above it: what is larger goes another way"
_MACHINE = "a part of what the machine has, and no amount that somebody asks for"
_CLOCK = "a time after which something happens, not an amount that is asked for"
_PER_PROCESS = "the end is the kernel's limit on a process, reached only with as many files"
_LATER = "nothing is refused above it: those behind are told less, or later"
NOT_TRIED = {
    "dashboard.what_if.MEMORY_BYTES": _MACHINE,
    "scheduler.forecast.reservation_timeline.EXACT": _OTHER_WAY,
    "storage.ledger.HistoryLimits.records": _OLDEST_GO,
    "storage.ledger.HistoryLimits.days": _OLDEST_GO,
    "storage.ledger.HistoryLimits.sum_days": _OLDEST_GO,
    "cli.forwarding.MAX_CONNECTIONS": _OTHER_WAY,
    "runtime.os.detection.STORE_PART": _MACHINE,
    "runtime.os.detection.MIN_STORE_BYTES": _MACHINE,
    "scheduler.placement.memory_pressure.MEMORY_LIMIT": _MACHINE,
    "runtime.os.job_files.OLD_LOG_BYTES": _OLDEST_GO,
    "runtime.os.job_files.KEPT_BYTES": _OLDEST_GO,
    "runtime.node.logs.WORKER_LOG_BYTES": _OLDEST_GO,
    "runtime.node.logs.ALL_LOGS_BYTES": _OLDEST_GO,
    "runtime.os.daemon_log.DAEMON_LOG_BYTES": _OLDEST_GO,
    "runtime.worker.fork_server.MAX_LINE_BYTES": _OTHER_WAY,
    "storage.sqlite.FLOOR_BYTES": _MACHINE,
    "storage.journal.QUEUE_BYTES": _MACHINE,
    "manifests.patterns.MAX_MEMORY_BYTES": "RE2 does not say how much a pattern needs",
    "runtime.os.shared_memory.WRITTEN_MAPPINGS": _OTHER_WAY,
    "runtime.node.setup.FILES_OF_A_WORKER": _PER_PROCESS,
    "runtime.node.setup.FILES_OF_ITS_OWN": _PER_PROCESS,
    "model.system_settings.INLINE_BYTES": _OTHER_WAY,
    "model.system_settings.LINEAGE_BYTES": _OLDEST_GO,
    "model.system_settings.DEAD_ACTORS": _OLDEST_GO,
    "observe.cluster_events.KEEP_EVENTS": _OLDEST_GO,
    "observe.task_journal.KEEP_RUNS": _OLDEST_GO,
    "node.events.KEEP_RUNS": _OLDEST_GO,
    "scheduler.forecast.run_times.RUNS": _OLDEST_GO,
    "scheduler.forecast.run_times.KINDS": _OLDEST_GO,
    "scheduler.forecast.expected.PROMISED": _LATER,
    "head.gangs.explaining.PLANNED": _LATER,
    "scheduler.forecast.grid.HORIZON_S": _CLOCK,
    "objects.pins.MAX_PIN_S": _CLOCK,
    "node.broadcasts.ANSWER_S": _CLOCK,
    "runtime.daemons.starting.KEEP_LOGS": _OLDEST_GO,
    "api.gangs.DEFAULT_GRACE_S": _CLOCK,
    "model.jobs.spec.DEFAULT_GRACE_S": _CLOCK,
    "model.jobs.timing.DEFAULT_WARNING_S": _CLOCK,
    "node.options.PATIENCE_S": _CLOCK,
    "node.membership.PATIENCE_IN_USE_S": _CLOCK,
    "head.nodes.liveness.HealthLimits.reconnect_s": _CLOCK,
    "head.nodes.liveness.HealthLimits.misses": _CLOCK,
    "head.nodes.liveness.HealthLimits.restored_s": _CLOCK,
    "runtime.daemons.starting.START_TIMEOUT_S": _CLOCK,
    "cli.reach.ANSWER_S": _CLOCK,
    "runtime.gateway.chunks.STALL_S": _CLOCK,
    "owner.peers.redialling.GIVE_UP_S": _CLOCK,
    "api.session.ADMITTED_FOR_S": _CLOCK,
    "model.system_settings.STREAM_ITEMS": "that many take minutes: a test sets fewer",
    "runtime.os.command_groups.MOST_PROCESSES": _MACHINE,
    "runtime.os.commands.NAMED": "a list of names, and no number",
}
"""The reasons why the other limits are not tried here."""


def test_every_row_of_the_page_is_tried_or_says_why_not() -> None:
    assert sorted([*TRIED, *ELSEWHERE, *NOT_TRIED]) == sorted(path for path, _, _ in ROWS)
    root = Path(__file__).parents[2]
    for path, file in ELSEWHERE.items():
        assert re.search(rf"\b{path.rpartition('.')[2]}\b", (root / file).read_text()), file


def _shown(number: float) -> str:
    """A pattern for the number as people write it."""
    return f"(?:{re.escape(str(number))}|{re.escape(f'{number:g}')})"


CASES = [
    pytest.param(path, limit, id=f"{path} {limit.way}".strip())
    for path, limits in TRIED.items()
    for limit in limits
]


@pytest.mark.parametrize(("path", "limit"), CASES)
def test_what_is_just_within_is_taken_and_one_more_is_refused(
    path: str, limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = constant(path)
    allowed = int(allowed) if allowed == int(allowed) else allowed
    if limit.patched is not None:
        module, name, allowed = limit.patched
        monkeypatch.setattr(module, name, allowed)
    found = limit.attempt(allowed)
    assert not isinstance(found, str), found
    above = round(allowed + limit.step, 5)
    try:
        said = limit.attempt(above)
    except Exception as error:
        said = str(error)
    assert isinstance(said, str), f"{above} was taken"
    assert re.search(
        limit.words.format(value=_shown(above), limit=_shown(allowed)), said, re.DOTALL
    )

"""The commands `phalanx list`, `get`, `summary` and `memory`: the state of a cluster."""

from __future__ import annotations

import json as json_module
from collections import Counter
from typing import Annotated, Any

from phalanx.cli.durations import METAVAR, seconds_at_least
from phalanx.cli.listing import fitted_table
from phalanx.cli.node_names import SHORT, Ids, NodeNames, find_node, names_of
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import NOT_FOUND, USAGE, ask, fail, is_elsewhere
from phalanx.cli.table import echo, say, table
from phalanx.cli.times import moment
from phalanx.model.nearest import nearest
from phalanx.model.readable import amount, size
from phalanx.observe.state.columns import COLUMNS, Row, id_column
from phalanx.observe.state.query import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    StateAnswer,
    StateQuery,
    Value,
    check_query,
    with_names,
)
from phalanx.observe.state.summaries import SUMMARIES, leaked_suspects, summary, summary_query
from phalanx.protocol.requests.state import QueryState

TIMEOUT_S = 10.0
"""The default time limit of a listing, in seconds."""
SLACK_S = 2.0
"""Seconds for which a command waits for the head's answer after a listing's time limit."""
_NAMED_SILENT = 5
"""The largest number of silent processes that a warning names."""
_SHOWN = {
    "actors": "actor_id class_name state name job_id node_id pid",
    "drivers": "job_id state pid node_id start_time_ms end_time_ms entrypoint",
    "gangs": "name queue phase min_members priority",
    "groups": "placement_group_id name state strategy",
    "jobs": "name namespace queue state kind running replicas reason",
    "nodes": "node_id node_ip state is_head_node running waiting state_message",
    "objects": "object_id object_size reference_type task_status type pid call_site",
    "tasks": "task_id name state attempt_number type job_id node_id worker_pid error_type",
    "workers": "worker_id worker_type is_alive pid node_id job_id activity exit_type",
}
"""The columns of the table of each kind. `--detail` shows all columns."""
KINDS = tuple(_SHOWN)

Kind = Annotated[
    str,
    Argument(help=f"Kind of entry: {', '.join(KINDS)}. `groups` are placement groups."),
]
Address = Annotated[
    str | None,
    Option(
        help="Address of the head (HOST:PORT), or pid:PID for a program that runs without a "
        "cluster (PID is its process id). Default: PHALANX_ADDRESS, the current login, or the "
        "cluster on this machine."
    ),
]
Timeout = Annotated[
    float,
    Option(
        parser=seconds_at_least(0),
        metavar=METAVAR,
        show_default=False,
        help="Time to wait for answers: 10s, 1m or 10 (seconds). Default: 10s.",
    ),
]
Json = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
Filters = Annotated[
    list[str] | None,
    Option(
        "--filter",
        "-f",
        help="Show only rows with COLUMN=VALUE or COLUMN!=VALUE, such as state=RUNNING. May be "
        "repeated.",
    ),
]


# ---- asking --------------------------------------------------------------------------------------


def query_state(address: str | None, query: StateQuery) -> StateAnswer:
    """Return the answer of a cluster or of a program's own session.

    Prints a warning for each process that gave no answer.
    """
    try:
        check_query(query)
    except ValueError as error:
        fail(str(error), USAGE)
    found = ask(address, QueryState(query), query.timeout_s + SLACK_S, with_programs=True)
    shown = found.silent[:_NAMED_SILENT]
    name = _names(address, [{"node_id": text} for text in shown], ids=False)
    for one in shown:
        said = with_names(one, name.known)
        say(f"warning: {said} gave no answer: its {query.kind} are left out.", err=True)
    if len(found.silent) > _NAMED_SILENT:
        say(f"warning: {len(found.silent) - _NAMED_SILENT} more gave no answer.", err=True)
    return found


def parse_filters(given: list[str] | None) -> list[tuple[str, str, Value]]:
    """Return (column, predicate, value) of each filter. Ends the command for an invalid filter."""
    found: list[tuple[str, str, Value]] = []
    for text in given or ():
        key, sign, value = text.partition("!=" if "!=" in text else "=")
        if not sign or not key.strip():
            fail(f"--filter takes COLUMN=VALUE or COLUMN!=VALUE, not {text!r}.", USAGE)
        found.append((key.strip(), sign, value.strip()))
    return found


def listing(
    kind: str,
    address: str | None,
    filters: list[str] | None,
    limit: int,
    timeout: float,
    has_detail: bool,
) -> StateAnswer:
    """Return the rows of a kind that match all filters."""
    query = StateQuery(kind, parse_filters(filters), limit, has_detail, timeout_s=timeout)
    found = query_state(address, query)
    if found.part.matched > len(found.part.rows):
        say(
            f"warning: only {len(found.part.rows)} of {found.part.matched} {kind} are shown; "
            f"choose by --filter, or raise --limit (at most {MAX_LIMIT}).",
            err=True,
        )
    return found


def _known(kind: str, among: tuple[str, ...]) -> str:
    kind = {"placement-groups": "groups", "placement_groups": "groups"}.get(kind, kind)
    if kind not in among:
        there = ", ".join(among)
        near = nearest(kind, among) or "."
        fail(f"There is no listing of {kind!r}; the kinds are {there}{near}", USAGE)
    return kind


# ---- commands ------------------------------------------------------------------------------------


def list_(
    kind: Kind,
    filters: Filters = None,
    limit: Annotated[
        int, Option(help=f"Maximum number of rows; at most {MAX_LIMIT}.")
    ] = DEFAULT_LIMIT,
    detail: Annotated[bool, Option("--detail", help="Show all columns.")] = False,
    format: Annotated[
        str,
        Option(help="Output format: table, json or yaml. Default: table, or yaml with --detail."),
    ] = "",
    timeout: Timeout = TIMEOUT_S,
    ids: Ids = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """List tasks, actors, objects, workers, nodes, jobs, gangs, placement groups or drivers."""
    kind = _known(kind, KINDS)
    form = "json" if json else format or ("yaml" if detail else "table")
    if form not in ("table", "json", "yaml"):
        fail(f"--format takes table, json or yaml, not {form!r}.", USAGE)
    found = listing(kind, address, filters, limit, timeout, detail or form == "table")
    part = found.part
    if form == "table":
        columns = [c.name for c in COLUMNS[kind]] if detail else _SHOWN[kind].split()
        say(rows_text(columns, part.rows, _names(address, part.rows, ids), is_fitted=not detail))
    else:
        data = {
            "format": "phalanx-list/1",
            "kind": kind,
            "total": part.total,
            "matched": part.matched,
            "silent": found.silent,
            "rows": part.rows,
        }
        echo_data(data, form)


def get(
    kind: Kind,
    id: Annotated[
        str, Argument(help="Id of the entry, as `phalanx list` shows it, or name of a node.")
    ],
    timeout: Timeout = TIMEOUT_S,
    address: Address = None,
    json: Json = False,
) -> None:
    """Show all columns of one entry, such as a task, an actor or an object.

    Exit 3: no entry has this id.
    """
    kind = _known(kind, KINDS)
    rows = rows_with_id(kind, id, timeout, address)
    if json:
        echo_data({"format": "phalanx-get/1", "kind": kind, "rows": rows}, "json")
    else:
        echo_data(rows, "yaml")


def rows_with_id(kind: str, id: str, timeout: float, address: str | None) -> list[Row]:
    """Return all rows with this id; ends the command when there is none. A node is also found by
    its name, and by the beginning of its id.
    """
    query = StateQuery(kind, [(id_column(kind), "=", id)], 1_000, True, timeout_s=timeout)
    rows = query_state(address, query).part.rows
    if not rows and kind == "nodes":
        return rows_with_id(kind, find_node(address, id), timeout, address)
    if not rows:
        fail(f"Resource with id={id} not found in the cluster.", NOT_FOUND)
    return rows


def summary_(
    kind: Annotated[str, Argument(help=f"Kind of entries to count: {', '.join(SUMMARIES)}.")],
    timeout: Timeout = TIMEOUT_S,
    address: Address = None,
    json: Json = False,
) -> None:
    """Count tasks by function, actors by class, or objects by the code that created them, and show
    their states.
    """
    kind = _known(kind, SUMMARIES)
    part = query_state(address, summary_query(kind, timeout)).part
    found = summary(kind, part)
    if json:
        echo_data({"format": "phalanx-summary/1", "kind": kind, **found}, "json")
    else:
        say(summary_text(kind, found))


def memory(
    limit: Annotated[
        int,
        Option(
            min=0, help="Maximum number of references to show, those to the largest objects first."
        ),
    ] = 50,
    timeout: Timeout = TIMEOUT_S,
    ids: Ids = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Show objects with the processes that hold them, and each node's use of memory and disk.

    Files of objects that no process holds are listed as suspected leaks.
    """

    def rows(kind: str) -> StateAnswer:
        query = StateQuery(kind, [], MAX_LIMIT, True, timeout_s=timeout)
        return query_state(address, query)

    objects, stores = rows("objects"), rows("stores")
    suspects = _suspects(rows, stores)
    listed = objects.part.rows[:limit]
    if json:
        data = {
            "format": "phalanx-memory/1",
            "stores": [{k: v for k, v in row.items() if k != "files"} for row in stores.part.rows],
            "total": objects.part.total,
            "objects": listed,
            "leaked_suspects": suspects,
            "silent": sorted({*objects.silent, *stores.silent}),
        }
        echo_data(data, "json")
    else:
        name = _names(address, [*stores.part.rows, *listed], ids)
        say(memory_text(stores.part.rows, objects.part.total, listed, suspects, name))


def _names(address: str | None, rows: list[Row], ids: bool) -> NodeNames:
    nodes = [str(row["node_id"]) for row in rows if row.get("node_id")]
    if is_elsewhere(address):  # other engines answer listings alone
        return NodeNames((), ids)
    return names_of(address, nodes, ids, with_programs=True)


def _suspects(rows: Any, stores: StateAnswer) -> list[Row]:
    """Return the files that no process holds. If a process has not answered, return no files.
    Processes are asked twice, and only files found both times count: while an object is passed on,
    no process holds its file for a moment.
    """
    found: list[Row] = []
    for attempt in range(2):
        held = rows("files")
        is_whole = held.part.matched == len(held.part.rows)
        if held.silent or stores.silent or not is_whole:
            say(
                "warning: some processes gave no answer, so no file is reported as leaked.",
                err=True,
            )
            return []
        there = stores if attempt == 0 else rows("stores")
        now = leaked_suspects(there.part.rows, held.part.rows)
        names = {row["file"] for row in found}
        found = now if attempt == 0 else [row for row in now if row["file"] in names]
        if not found:
            break
    return found


# ---- showing -------------------------------------------------------------------------------------


def echo_data(data: Any, form: str, *, marked: bool = False) -> None:
    """Print data as JSON or YAML. `marked`: add the lines that begin and end a document of YAML."""
    plain = json_module.loads(json_module.dumps(data, default=str))
    if form == "json":
        echo(json_module.dumps(plain, indent=1))
        return
    import yaml

    dump = yaml.safe_dump_all if isinstance(plain, list) else yaml.safe_dump
    text = dump(
        plain, sort_keys=False, allow_unicode=False, explicit_start=marked, explicit_end=marked
    )
    echo(text, nl=False)


def _head(name: str) -> str:
    return "NODE" if name == "node_id" else name.upper()


_LESS_NEEDED = (
    *(
        "object_id",
        "owner_id",
        "job_id",
        "attempt_number",
        "is_alive",
        "ray_namespace",
        "end_time_ms",
        "start_time_ms",
    ),
    *("strategy", "is_head_node", "waiting", "running", "kind", "replicas", "namespace"),
    *("priority", "min_members", "task_status", "reference_type", "exit_type", "activity"),
    *("worker_pid", "pid", "node_ip", "type", "node_id", "queue", "error_type", "call_site"),
    *("state_message", "reason", "entrypoint", "object_size", "worker_type", "state", "phase"),
    *("class_name", "name"),
)
"""The columns in the order in which narrow terminals leave them out. The id is always shown."""
_RANKS = {_head(name): rank for rank, name in enumerate(reversed(_LESS_NEEDED), start=1)}
_TEXTS = ("CALL_SITE", "STATE_MESSAGE", "REASON", "ENTRYPOINT", "ERROR_TYPE")
"""The columns with sentences, which may be cut."""
_NO_NAMES = NodeNames(())


def rows_text(
    columns: list[str], rows: list[Row], name: NodeNames = _NO_NAMES, *, is_fitted: bool = True
) -> str:
    """Return rows as the text of a table. `name` returns the display name of a node. `is_fitted`:
    whether a narrow terminal leaves out columns.
    """
    heads = [columns[0].upper(), *map(_head, columns[1:])]
    right = [head for head in heads if head in ("OBJECT_SIZE", "PID", "WORKER_PID")]
    cells = [
        [
            name(row["node_id"])
            if column == "node_id" and number and row.get("node_id")
            else _cell(column, row.get(column))
            for number, column in enumerate(columns)
        ]
        for row in rows
    ]
    if not is_fitted:
        return table(heads, cells, right)
    ranks = {head: rank for head, rank in _RANKS.items() if head != heads[0]}
    return fitted_table(heads, cells, ranks, right, _TEXTS)


def _cell(name: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    if name == "node_id":
        return str(value)[:SHORT]
    if name.endswith("_ms") and isinstance(value, int):
        return moment(value / 1000) if value else "-"
    if name == "object_size":
        return "?" if value < 0 else size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return amount(value)
    return str(value)


def summary_text(kind: str, found: dict[str, Any]) -> str:
    """Return a summary as text."""
    groups: dict[str, Any] = found["summary"]
    ranks = {}
    if kind == "objects":
        head = ["OBJECTS", "MIB", "PROCESSES", "NODES", "STATES", "REFERENCES", "CREATED"]
        cells = [
            [
                str(one["total_objects"]),
                f"{one['total_size_mb']:.1f}",
                str(one["total_num_workers"]),
                str(one["total_num_nodes"]),
                _counted(one["task_state_counts"]),
                _counted(one["ref_type_counts"]),
                name,
            ]
            for name, one in groups.items()
        ]
        ranks = {"REFERENCES": 1, "STATES": 2, "NODES": 3, "PROCESSES": 4}
        totals = {"references": found["total_objects"]}
        text = f"{_total(totals)}, {found['total_size_mb']:.1f} MiB"
    else:
        head = ["NAME", "TYPE"] if kind == "tasks" else ["CLASS"]
        head += ["COUNT", "STATES"]
        cells = [
            [
                name,
                *([str(one["type"])] if kind == "tasks" else []),
                str(sum(one["state_counts"].values())),
                _counted(one["state_counts"]),
            ]
            for name, one in groups.items()
        ]
        totals = {k.removeprefix("total_"): v for k, v in found.items() if k.startswith("total_")}
        text = _total(totals)
    right = ("OBJECTS", "MIB", "PROCESSES", "NODES", "COUNT")
    return f"{text}\n\n{table(head, cells, right, ranks)}"


def _total(counts: dict[str, int]) -> str:
    names = {name: name.replace("_", " ") for name in counts}
    return _counted(
        {names[name].removesuffix("s") if n == 1 else names[name]: n for name, n in counts.items()}
    )


def _counted(counts: dict[Any, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(counts).most_common())


def memory_text(
    stores: list[Row],
    total: int,
    objects: list[Row],
    suspects: list[Row],
    name: NodeNames = _NO_NAMES,
) -> str:
    """Return the text of `phalanx memory`: nodes, objects and suspected leaks."""
    nodes = [
        [
            name(str(row["node_id"])),
            str(row["objects"]),
            f"{size(row['shared_bytes'])}/{size(row['capacity_bytes'])}",
            size(row["pinned_bytes"]),
            size(row["kept_bytes"]),
            str(row["spilled_objects"]),
            size(row["spilled_bytes"]),
        ]
        for row in stores
    ]
    columns = [
        *("object_size", "reference_type", "type", "pid", "node_id", "task_status"),
        *("call_site", "object_id"),
    ]
    lines = [
        table(["NODE", "OBJECTS", "MEMORY", "PINNED", "KEPT", "SPILLED", "ON DISK"], nodes),
        "",
        f"{len(objects)} of {total} references to objects, the largest first:",
        rows_text(columns, objects, name),
    ]
    if suspects:
        lines += [
            "",
            f"{len(suspects)} files that no process holds (leaked?):",
            rows_text(["object_size", "file", "node_id", "owner_id"], suspects, name),
        ]
    return "\n".join(lines)

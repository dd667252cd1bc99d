"""The commands `phalanx queue ...`: create, list, change, open, close and delete queues."""

from __future__ import annotations

from typing import Annotated, Any

from phalanx.cli.common_options import Address, Json, rows_json
from phalanx.cli.layout import Column
from phalanx.cli.listing import NoHeaders, Output, show
from phalanx.cli.options import Argument, Group, Option
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.model.readable import amount, duration, size
from phalanx.model.rows.explanation import BYTES
from phalanx.protocol.requests.queues import (
    CloseQueue,
    CreateQueue,
    DeleteQueue,
    ListQueues,
    OpenQueue,
    QueueFields,
    UpdateQueue,
)

app = Group(name="queue", help="Create, list, change, open, close and delete queues.")

Name = Annotated[str, Argument(help="Name of the queue.")]
Weight = Annotated[
    int | None,
    Option(
        "--weight",
        "-w",
        min=1,
        help="Weight of the queue among the queues of its parent: a queue with weight 2 gets "
        "twice the resources of a queue with weight 1. Queues without work get no part, and "
        "resources that --deserved names are not divided by weight. New queues have weight 1.",
    ),
]
Priority = Annotated[
    int | None,
    Option(
        help="Priority of the queue. Queues with higher numbers are served "
        "first. New queues have priority 0."
    ),
]
Parent = Annotated[
    str | None,
    Option(help="Name of the parent queue. A new queue without --parent is below the queue root."),
]
Capability = Annotated[
    str | None,
    Option(
        help="Amounts that the queue never exceeds: CPU=8,GPU=2 or memory=64GiB. New "
        "queues have no such limit."
    ),
]
Deserved = Annotated[
    str | None,
    Option(
        help="Amounts that the queue gets while other queues need resources, too, such as "
        "CPU=8,GPU=2. The queue may borrow more while other queues do not need it."
    ),
]
Guarantee = Annotated[
    str | None,
    Option(
        help="Amounts that are always kept for the queue: CPU=8,GPU=2 or memory=64GiB. "
        "Nothing is kept for new queues."
    ),
]
Time = Annotated[
    str | None,
    Option(
        help="Time limit of jobs that are submitted without a limit: 2h30m, 90s, 1-12:00 (1 "
        "day and 12 hours), 90 (minutes) or `none`. With `none`, the limit of the nearest queue "
        "above that has one applies."
    ),
]
MaxTime = Annotated[
    str | None,
    Option(
        help="Longest time limit that a job may have: 2h30m, 90s, 1-12:00 (1 day and 12 "
        "hours), 90 (minutes) or `none`. If neither this queue nor a queue above has a "
        "default limit, jobs without a limit get this one. The longest times of all queues above "
        "apply, too."
    ),
]
IdleGpus = Annotated[
    str | None,
    Option(
        help="Rule for jobs whose GPUs are idle: 'below 5% for 30m' warns of a job if each of "
        "its GPUs was used below 5% for 30 minutes; 'below 5% for 30m, end' also ends the "
        "job. With `none`, the queue has no rule. A new queue has the rule of its parent."
    ),
]
Submit = Annotated[
    str | None,
    Option(
        help="People who may submit to the queue, separated by commas: alice, @ml (a group), "
        "token:ci or * (everybody). If queues above this queue have lists, these must name the "
        "people, too. '' removes the list. If neither this queue nor a queue above it has a "
        "list, everybody may submit; in a shared cluster, only operators, admins and the people "
        "of --admin may."
    ),
]
Admin = Annotated[
    str | None,
    Option(
        help="People who administer the queue and the queues below it, written like "
        "--submit. The people of all queues above administer this queue, too."
    ),
]
Reclaimable = Annotated[
    bool | None,
    Option(
        help="Let other queues reclaim what this queue has borrowed beyond its deserved "
        "amounts (--deserved); --no-reclaimable forbids it. New queues are reclaimable."
    ),
]


@app.command()
def create(
    name: Name,
    weight: Weight = None,
    capability: Capability = None,
    deserved: Deserved = None,
    guarantee: Guarantee = None,
    parent: Parent = None,
    priority: Priority = None,
    reclaimable: Reclaimable = None,
    default_time: Time = None,
    max_time: MaxTime = None,
    idle_gpus: IdleGpus = None,
    submit: Submit = None,
    admin: Admin = None,
    address: Address = None,
) -> None:
    """Create a queue."""
    given = locals()
    fields = _fields(given)
    ask(address, CreateQueue(name, fields))
    say(f"queue {name} is made")


@app.command()
def update(
    name: Name,
    weight: Weight = None,
    capability: Capability = None,
    deserved: Deserved = None,
    guarantee: Guarantee = None,
    parent: Parent = None,
    priority: Priority = None,
    reclaimable: Reclaimable = None,
    default_time: Time = None,
    max_time: MaxTime = None,
    idle_gpus: IdleGpus = None,
    submit: Submit = None,
    admin: Admin = None,
    address: Address = None,
) -> None:
    """Change a queue. Options that are not given keep their values."""
    given = locals()
    fields = _fields(given)
    if fields == QueueFields():
        fail("Nothing to change: give --weight, --capability or another field.", USAGE)
    ask(address, UpdateQueue(name, fields))
    say(f"queue {name} is changed")


def _fields(given: dict[str, Any]) -> QueueFields:
    from phalanx.api.queues import queue_fields

    fields = {name: value for name, value in given.items() if name not in ("name", "address")}
    for name in ("capability", "deserved", "guarantee"):
        fields[name] = _amounts(fields[name])
    for name in ("default_time", "max_time"):
        fields[f"{name}_s"] = _length(name.replace("_", "-"), fields.pop(name))
    try:
        return queue_fields(**fields)
    except ValueError as error:
        fail(str(error), USAGE)


def _length(option: str, text: str | None) -> float | None:
    from phalanx.manifests.times import read_limit

    try:
        return None if text is None else read_limit(text)
    except ValueError as error:
        fail(f"--{option}: {error}", USAGE)


def _amounts(text: str | None) -> dict[str, float] | None:
    from phalanx.manifests.quantities import HOUSE
    from phalanx.manifests.sizes import read_amount

    if text is None:
        return None
    found = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            fail(f"Amounts are NAME=AMOUNT, as in CPU=8,GPU=2,memory=64Gi; given {text!r}.", USAGE)
        try:
            resource = HOUSE.get(name.strip(), name.strip())
            found[resource] = read_amount(resource, value)
        except ValueError as error:
            fail(f"{part!r}: {error}", USAGE)
    return found


def _shown_amounts(amounts: dict[str, float]) -> str:
    shown = (
        f"{name}={(size if name in BYTES else amount)(value)}"
        for name, value in sorted(amounts.items())
    )
    return ",".join(shown) or "-"


def _limit(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


COLUMNS = (
    Column("name", lambda row: row.name),
    Column("parent", lambda row: row.parent, rank=9),
    Column("weight", lambda row: str(row.weight), rank=8, is_right=True),
    Column("state", lambda row: row.state),
    Column("pending", lambda row: str(row.pending), is_right=True),
    Column("running", lambda row: str(row.running), is_right=True),
    Column("members", lambda row: str(row.members), rank=10, is_right=True),
    Column("used", lambda row: _shown_amounts(row.allocated), rank=1, is_text=True),
    Column("asked", lambda row: _shown_amounts(row.requested), rank=2, is_text=True),
    Column("guarantee", lambda row: _shown_amounts(row.guarantee), rank=5, is_text=True),
    Column("deserved", lambda row: _shown_amounts(row.deserved), rank=4, is_text=True),
    Column("capability", lambda row: _shown_amounts(row.capability), rank=3, is_text=True),
    Column("time", lambda row: _limit(row.default_time_s), rank=7, is_right=True),
    Column("max-time", lambda row: _limit(row.max_time_s), rank=6, is_right=True),
)
"""The columns of the listing of queues."""


@app.command("list")
def list_queues(
    output: Output = "", no_headers: NoHeaders = False, address: Address = None, json: Json = False
) -> None:
    """List all queues."""
    rows = ask(address, ListQueues())
    if json:
        echo(rows_json(rows))
    else:
        show(COLUMNS, rows, output, no_headers)


@app.command()
def get(name: Name, output: Output = "", address: Address = None, json: Json = False) -> None:
    """Show one queue."""
    rows = ask(address, ListQueues(name))
    if json:
        echo(rows_json(rows[0]))
    else:
        show(COLUMNS, rows, output)


@app.command("open")
def open_queue(name: Name, address: Address = None) -> None:
    """Open a closed queue, and the queues below that were closed with it, to new work."""
    ask(address, OpenQueue(name))
    say(f"queue {name} is open")


@app.command()
def close(name: Name, address: Address = None) -> None:
    """Close a queue, and the queues below it, to new work. Work that is already there goes on."""
    row = ask(address, CloseQueue(name))
    say(f"queue {name} is {row.state.lower()}")


@app.command()
def delete(name: Name, address: Address = None) -> None:
    """Delete an empty queue."""
    ask(address, DeleteQueue(name))
    say(f"queue {name} is deleted")

"""The command `phalanx health`: the condition of a cluster's head."""

from __future__ import annotations

import json as json_module
import time

import msgspec

from phalanx.cli.common_options import Address, Json
from phalanx.cli.ending import Ended
from phalanx.cli.reach import FAILED, ask
from phalanx.cli.table import echo, say, table
from phalanx.observe.events import LAST_REFUSED
from phalanx.observe.health import BAD, Health, health
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.protocol.requests.cluster import GetHealth, GetStatus
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.gangs import GetRules

FORMAT = "phalanx-health/1"


def health_(address: Address = None, json: Json = False) -> None:
    """Show whether the head works well.

    The rows of the first table show the head, its store, its scheduling cycles,
    the scheduler's configuration (rules), the versions, the nodes, defects
    (internal errors), and the lag of the head's event loop. The second table
    shows the requests that took the head most time. Exit 1: a row has the state
    `bad`.
    """
    from phalanx import __version__

    found = health(
        ask(address, GetHealth()),
        ask(address, GetStatus(is_brief=True)),
        ask(address, GetRules()),
        ask(address, ListEvents(LAST_REFUSED)).events,
        now=time.time(),
        version=__version__,
        protocol=PROTOCOL_VERSION,
    )
    if json:
        said = {"format": FORMAT, **msgspec.to_builtins(found)}
        echo(json_module.dumps(said, indent=1))
    else:
        say(health_text(found))
    if found.state == BAD:
        raise Ended(FAILED)


def health_text(found: Health) -> str:
    """Return a table of findings, followed by a table of the requests that took the head most
    time.
    """
    rows = [[one.what, one.state, one.said] for one in found.findings]
    took = [
        [name, str(count), f"{1000 * seconds:.1f} ms", f"{1000 * seconds / count:.2f} ms"]
        for name, count, seconds in found.requests
        if count
    ]
    lines = [table(("OF", "STATE", "WHAT"), rows)]
    if took:
        head = ("REQUEST", "TIMES", "IN ALL", "EACH")
        lines += ["", table(head, took, head[1:])]
    return "\n".join(lines)

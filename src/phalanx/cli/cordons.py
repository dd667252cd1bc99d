"""`phalanx cordon` and `phalanx uncordon`: nodes and single GPUs that get nothing new."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from phalanx.cli.cluster import Address, find_node
from phalanx.cli.draining import after_release, asker
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import say
from phalanx.protocol.requests.health import Cordon, Uncordon

_DEVICE = re.compile(r"gpu(\d{1,6})")
Place = Annotated[
    str,
    typer.Argument(help="A node's id, how that begins, or its host; NODE/gpu3 is a GPU of it."),
]


def cordon(
    place: Place,
    reason: Annotated[str, typer.Option(help="Shown to everybody.")] = "",
    address: Address = None,
) -> None:
    """Give a node or a GPU (NODE/gpu3) nothing new until it is uncordoned; what runs goes on.

    Exit 3 when there is no such node.
    """
    node_id, devices, name = _read(address, place)
    is_new = ask(address, Cordon(node_id, devices, reason, asker()))
    say(f"{name} is cordoned{'' if is_new else ' already'}.")


def uncordon(place: Place, address: Address = None) -> None:
    """Give a node or a GPU (NODE/gpu3) new work again.

    Of a GPU that is bad it says that it is well: only what comes new counts against it.
    """
    node_id, devices, name = _read(address, place)
    did = ask(address, Uncordon(node_id, devices))
    if devices:
        say(f"{name} {'may be used again' if did else 'was not cordoned'}.")
    else:
        say(after_release(address, node_id, "takes work again" if did else "was not cordoned"))


def _read(address: str | None, place: str) -> tuple[str, list[int], str]:
    """(node's id, numbers of GPUs, what to call it)."""
    node, slash, named = place.partition("/")
    found = [_DEVICE.fullmatch(word.strip()) for word in named.split(",")] if slash else []
    devices = [int(one[1]) for one in found if one is not None]
    if len(devices) < len(found):
        fail(f"A GPU is NODE/gpu3, several are NODE/gpu3,gpu5, not {place!r}.", USAGE)
    node_id = find_node(address, node)
    name = f"Node {node_id}"
    if devices:
        name = f"{', '.join(f'gpu{number}' for number in devices)} of node {node_id}"
    return node_id, devices, name

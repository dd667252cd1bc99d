"""The commands `phalanx cordon` and `phalanx uncordon` for nodes and single GPUs."""

from __future__ import annotations

import re
from typing import Annotated

from phalanx.cli.common_options import Address
from phalanx.cli.draining import after_release, asker
from phalanx.cli.node_names import FoundNode, find_named
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import say
from phalanx.protocol.requests.health import Cordon, Uncordon

_DEVICE = re.compile(r"gpu(\d{1,6})")
Place = Annotated[
    str,
    Argument(
        help="Node (its name, its id or the beginning of its id), or GPUs of a node: NODE/gpu3 "
        "or NODE/gpu3,gpu5."
    ),
]


def cordon(
    place: Place,
    reason: Annotated[str, Option(help="Reason to show to all users.")] = "",
    address: Address = None,
) -> None:
    """Keep new work away from a node or a GPU until `phalanx uncordon`; running work goes on. Exit
    3: no such node.

    To end running work by a deadline, or to close a node at a planned time, use
    `phalanx drain`.
    """
    node, devices, name = _read(address, place)
    is_new = ask(address, Cordon(node.node_id, devices, reason, asker()))
    say(f"{name} is cordoned{'' if is_new else ' already'}.")


def uncordon(place: Place, address: Address = None) -> None:
    """End the cordon of a node or a GPU, so that it takes new work again.

    For a GPU in state `bad`, the command overrides the health check: from then
    on, only new errors count against the GPU.
    """
    node, devices, name = _read(address, place)
    did = ask(address, Uncordon(node.node_id, devices))
    if devices:
        say(f"{name} {'may be used again' if did else 'was not cordoned'}.")
    else:
        say(after_release(address, node, "takes work again" if did else "was not cordoned"))


def _read(address: str | None, place: str) -> tuple[FoundNode, list[int], str]:
    """Return the node, the numbers of the named GPUs, and words for the node or these GPUs."""
    node, slash, named = place.partition("/")
    found = [_DEVICE.fullmatch(word.strip()) for word in named.split(",")] if slash else []
    devices = [int(one[1]) for one in found if one is not None]
    if len(devices) < len(found):
        fail(f"A GPU is NODE/gpu3, several are NODE/gpu3,gpu5, not {place!r}.", USAGE)
    found_node = find_named(address, node)
    name = f"Node {found_node.name}"
    if devices:
        name = f"{', '.join(f'gpu{number}' for number in devices)} of node {found_node.name}"
    return found_node, devices, name

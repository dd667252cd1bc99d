"""Lists of hosts in Slurm's form, and the names of nodes in listings."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.model.rows.cluster import NodeInfo, listed_name


def name_of(node: NodeInfo) -> str:
    """Return a node's name in listings."""
    return listed_name(node.host, node.hostname)


def names_of(nodes: Iterable[NodeInfo]) -> str:
    """Return the names of nodes as a list; nodes of the same name are listed once."""
    return ",".join(dict.fromkeys(map(name_of, nodes)))


def expanded(hosts: str) -> list[str]:
    """Return the names in a list such as `node[01-03,7],other`."""
    out: list[str] = []
    word, depth = "", 0
    words = []
    for letter in hosts:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            words.append(word)
            word = ""
        else:
            word += letter
    for one in filter(None, [*words, word]):
        before, bracket, rest = one.partition("[")
        inner, _, after = rest.partition("]")
        for part in inner.split(",") if bracket else [""]:
            low, is_range, high = part.partition("-")
            if is_range and low.isdecimal() and high.isdecimal() and int(high) - int(low) < 100_000:
                numbers = [str(n).zfill(len(low)) for n in range(int(low), int(high) + 1)]
            else:
                numbers = [part]
            out += [before + number + after for number in numbers]
    return out

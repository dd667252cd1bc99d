"""This node keeps copies of a dead node's objects exactly as long as a process here may read
them.
"""

from __future__ import annotations

import pytest

from phalanx.objects.last_readers import LastReaders

NODE, OTHER = b"nodeee", b"otherr"


@pytest.mark.parametrize(
    ("events", "gone"),
    [
        ("die:xy:", "xy"),
        ("die:xy:a", ""),
        ("die:xy:a told:a", "xy"),
        ("die:xy:ab told:a", ""),
        ("die:xy:ab told:a told:b", "xy"),
        ("die:xy:ab used:x:a told:a told:b", "y"),
        ("die:xy:ab used:x:a told:a end:b", "y"),
        ("die:xy:ab used:x:a told:a told:b end:a", "xy"),
        ("die:xy:ab used:x:a used:x:b told:a told:b end:a", "y"),
        ("die:xy:ab used:x:a end:a told:b", "xy"),
        ("die:xy:ab end:a end:b", "xy"),
        ("used:x:a die:xy:a told:a", "xy"),  # what was read before is asked for anew
        ("die:xy:a used:z:a told:a", "xy"),
        ("die:x:ab used:x:a told:a told:b end:b", ""),
        ("die:x:a evict:x told:a", ""),
        ("die:xy:a evict:x told:a", "y"),
        ("die:xy:a used:y:a told:a evict:x end:a", "y"),
        ("told:a", ""),
        ("end:a", ""),
    ],
)
def test_turning_points(events, gone):
    readers, found = LastReaders(), set()
    for event in events.split():
        match event.split(":"):
            case "die", copies, asked:
                dropped = readers.node_gone(NODE, copies, [p.encode() for p in asked])
            case "used", name, process:
                readers.used(name, process.encode())
                continue
            case "told", process:
                dropped = readers.reported(NODE, process.encode())
            case "end", process:
                dropped = readers.process_gone(process.encode())
            case "evict", name:
                dropped = [name]
                found.discard(name)
        assert len(set(dropped)) == len(dropped)
        for name in dropped:
            readers.dropped(name)
        found |= {name for name in dropped if not event.startswith("evict")}
    assert found == set(gone)


def test_two_nodes_are_settled_one_by_one():
    readers = LastReaders()
    assert readers.node_gone(NODE, ["x"], [b"a", b"b"]) == []
    assert readers.node_gone(OTHER, ["y"], [b"a"]) == []
    assert readers.reported(OTHER, b"a") == ["y"]
    readers.dropped("y")
    assert readers.process_gone(b"a") == []
    assert readers.reported(NODE, b"b") == ["x"]

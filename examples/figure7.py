"""a + b over two nodes: every step of one task, as the nodes recorded it.

    .venv/bin/python examples/figure7.py

`a` is made on node N1 and `b`, which is larger, on node N2. add(a, b) is submitted on N1. This is
the example of figure 7 in "Ray: A Distributed Framework for Emerging AI Applications" (Moritz et
al., OSDI 2018). The printed steps are read from `phalanx.cluster_events()`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import phalanx
from phalanx.cluster_utils import Cluster

Row = dict[str, Any]


@phalanx.remote
def make(count: int) -> np.ndarray:
    """Return the numbers 0, 1, 2, ..."""
    return np.arange(count, dtype=np.float64)


@phalanx.remote
def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the sum. `a` is repeated, because it is shorter than `b`."""
    return np.resize(a, b.shape) + b


def main() -> None:
    """Run the task on a cluster of two nodes, and print the steps of the task."""
    cluster = Cluster(head_node_args={"num_cpus": 1, "resources": {"N1": 1}}, initialize_head=True)
    try:
        # With one CPU, N2 may still be held by the task that made b, and c would be made on N1.
        cluster.add_node(num_cpus=2, resources={"N2": 1})
        cluster.connect()
        a = make.options(resources={"N1": 1}).remote(100_000)
        b = make.options(resources={"N2": 1}).remote(200_000)
        phalanx.wait([a, b], num_returns=2, fetch_local=False)
        c = phalanx.get(add.remote(a, b))
        assert np.array_equal(c, np.resize(np.arange(100_000.0), 200_000) + np.arange(200_000.0))
        for line in story(phalanx.cluster_events()):
            print(line)
    finally:
        cluster.shutdown()


def story(rows: list[Row]) -> list[str]:
    """Return the steps of add(a, b), in the order of cause and effect.

    Raises LookupError when one of the steps was not recorded.
    """
    located = find(rows, "ArgumentsLocated", name="add")
    n1, n2 = located["node"], located["near"]
    nodes = {n1: "N1", n2: "N2"}
    objects = dict(zip((name for name, _, _ in located["objects"]), "ab", strict=True))
    of_class = {"owner": located["owner"], "scheduling_class": located["scheduling_class"]}
    of_task = {"task": located["task"]}
    known = find(rows, "LocationKnown", **of_task)
    objects[known["object"]] = "c"
    a, b, c = objects
    lent = find(rows, "LeaseLent", node=n2, **of_class)
    ran = find(rows, "Executed", **of_task)
    pulled = find(rows, "PullEnded", node=n2, object=a)
    fetched = find(rows, "PullEnded", node=n1, object=c)
    where = ", ".join(f"{objects[o]} of {s:,} B on {nodes[n]}" for o, s, n in located["objects"])
    told = [
        ("add(a, b), add's calls", None),
        (f"the owner looks up where its arguments lie: {where}", located),
        (
            "submitted to the local scheduler: one worker is wanted",
            find(rows, "DemandQueued", node=n1, **of_class),
        ),
        ("forwarded to the global scheduler", find(rows, "Forwarded", node=n1, **of_class)),
        (
            f"{nodes[n2]} is chosen, which holds most of the bytes",
            find(rows, "NodeChosen", node=n1, chosen=n2, **of_class),
        ),
        (f"worker {lent['worker'][12:24]} is lent to the owner on N1", lent),
        ("b is on this node", find(rows, "ArgumentPresent", node=n2, object=b)),
        (
            f"a is missing: {pulled['bytes']:,} B are fetched from {nodes[pulled['source']]}",
            find(rows, "PullStarted", node=n2, object=a),
        ),
        (f"a has arrived, after {pulled['seconds'] * 1e3:.1f} ms", pulled),
        (f"add(a, b) has run: {ran['state']}", ran),
        ("c is stored", find(rows, "ResultStored", node=n2, object=c)),
        ("get(c)", None),
        ("c is not there: the reader waits", find(rows, "ReaderWaits", node=n1, **of_task)),
        (f"the owner learns that c of {known['bytes']:,} B lies on N2", known),
        ("the reader is told", find(rows, "ReadersNotified", node=n1, **of_task)),
        (
            f"{fetched['bytes']:,} B are fetched from {nodes[fetched['source']]}",
            find(rows, "PullStarted", node=n1, object=c),
        ),
        (f"c has arrived, after {fetched['seconds'] * 1e3:.1f} ms", fetched),
    ]
    lines = []
    step = 0
    for text, row in told:
        if row is None:
            step = 0
            lines.append(text)
            continue
        step += 1
        after_ms = (row["at"] - located["at"]) * 1e3
        lines.append(f"{step:3} {nodes[row['node']]} {after_ms:8.1f} ms  {row['event']:17} {text}")
    return lines


def find(rows: list[Row], event: str, **fields: Any) -> Row:
    """Return the first event of this type with these fields."""
    for row in rows:
        if row["event"] == event and all(row[name] == value for name, value in fields.items()):
            return row
    raise LookupError(f"no {event} with {fields} was recorded")


if __name__ == "__main__":
    main()

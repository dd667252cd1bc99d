"""Starts a head or a node with the given options, and ends it when its own standard input ends."""

from __future__ import annotations

import json
import os
import sys

from phalanx.runtime.daemons.starting import HeadOptions, NodeOptions, start_head, start_node


def main():
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    ends, _alive = os.pipe()
    if kind == "head":
        options["store"] = tuple(options.get("store", ("memory",)))
        daemon = start_head(HeadOptions(**options), ends)
    else:
        daemon = start_node(NodeOptions(**options), ends)
    announcement = {
        "address": daemon.announcement.address,
        "node_id": daemon.announcement.node_id,
        "pid": daemon.announcement.pid,
    }
    print(json.dumps(announcement), flush=True)
    sys.stdin.read()
    daemon.kill()


if __name__ == "__main__":
    main()

"""A long random run: a checker reads what members wrote of themselves."""

from __future__ import annotations

import itertools
import json
import os
import random
import time

import phalanx

from .conftest import PATIENCE_S, await_true, none_left

GANGS = 40


@phalanx.remote(num_gpus=1, num_cpus=0, max_retries=5)
def member(path, name, crasher, seconds):
    """Writes down when it began and ended; now and then one crashes first."""
    context = phalanx.get_runtime_context()
    gang = context.gang
    fact = {
        "gang": name,
        "rank": gang.rank,
        "world": gang.world_size,
        "node": context.get_node_id(),
        "devices": gang.devices,
        "ports": gang.ports,
    }

    def write(what):
        line = json.dumps({**fact, "what": what, "at": time.monotonic(), "pid": os.getpid()})
        with open(path, "a") as file:
            file.write(line + "\n")

    write("begin")
    time.sleep(seconds)
    write("end")
    if gang.rank == crasher and context.get_attempt_number() == 0:
        os._exit(1)
    return gang.rank


def intervals(lines):
    """(begin, end, facts) of every start of a member."""
    begun = {}
    for line in lines:
        key = (line["gang"], line["rank"], line["pid"])
        if line["what"] == "begin":
            begun[key] = line
        else:
            yield begun.pop(key)["at"], line["at"], line
    assert not begun


def assert_apart(spans, what):
    """No two of these overlap."""
    ordered = sorted(spans)
    for (_, end, one), (begin, _, other) in itertools.pairwise(ordered):
        assert begin >= end, f"{what}: {one} and {other} at once"


def test_no_device_or_port_is_held_twice_and_no_gang_begins_in_part(new_cluster, tmp_path):
    new_cluster({"num_cpus": 1, "num_gpus": 4}, {"num_cpus": 1, "num_gpus": 3})
    phalanx.create_queue("a", weight=2)
    phalanx.create_queue("b")
    rng = random.Random(7)
    path = str(tmp_path / "log")
    gangs, sizes = [], {}
    for number in range(GANGS):
        size = rng.choice((1, 1, 2, 3, 5, 7))
        sizes[f"g{number}"] = size
        chosen = member.gang(
            size, queue=rng.choice("ab"), priority=rng.choice((0, 0, 0, 3)), ports=2, grace_s=0.5
        )
        crasher = rng.choice((-1, -1, 0))
        gangs.append(chosen.remote(path, f"g{number}", crasher, rng.uniform(0, 0.05)))
    for gang in gangs:
        assert phalanx.get(list(gang), timeout=PATIENCE_S) == list(range(len(gang)))
    await_true(none_left)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    ended = {(line["pid"], line["gang"], line["rank"]) for line in lines if line["what"] == "end"}
    # A member that was preempted or whose gang lost another wrote no end: it is told by SIGTERM.
    whole = [x for x in lines if (x["pid"], x["gang"], x["rank"]) in ended]
    spans = list(intervals(whole))
    by_device, by_port = {}, {}
    for begin, end, line in spans:
        for device in line["devices"]:
            by_device.setdefault((line["node"], device), []).append((begin, end, line["gang"]))
    for key, held in by_device.items():
        assert_apart([(b, e, f"{g}") for b, e, g in held], key)
    for begin, end, line in spans:
        for port in line["ports"]:
            by_port.setdefault(port, {}).setdefault(line["gang"], []).append((begin, end))
    for port, held in by_port.items():
        of_gangs = [(min(s)[0], max(e for _, e in s), gang) for gang, s in held.items()]
        assert_apart(of_gangs, port)
    for name, size in sizes.items():
        of_gang = [line for line in lines if line["gang"] == name]
        assert {line["rank"] for line in of_gang} == set(range(size))
        assert {line["world"] for line in of_gang} == {size}

"""Parts of the gang scheduler that do no I/O: sizes, shares, and the gangs of a cycle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phalanx.errors import GangInfeasibleError
from phalanx.head.gangs.cycle_window import WINDOW, CycleWindow
from phalanx.head.gangs.feasibility import check_side_by_side, most_members, why_none
from phalanx.head.gangs.gang import Gang, Member
from phalanx.head.gangs.gang_registry import one_of_each_name
from phalanx.head.gangs.member_states import DONE, HELD, WAITING
from phalanx.head.gangs.podgroups import PodGroups
from phalanx.head.jobs.environment import member_setup
from phalanx.head.jobs.places import MemberPlace, PlacedGang
from phalanx.head.queues.deserved import with_deserved
from phalanx.model.jobs.spec import JobSpec, TaskGroup
from phalanx.scheduler.cycle.specs import QueueSpec

from .checking import faults, left

CPU, GPU = {"CPU": 1.0}, {"GPU": 2.0}


@pytest.mark.parametrize(
    ("members", "nodes", "limits", "most"),
    [
        ([CPU] * 5, [{"CPU": 2}, {"CPU": 2}], {}, 4),
        ([CPU] * 3, [{"CPU": 2}, {"CPU": 2}], {}, 3),
        ([CPU] * 3, [{"CPU": 8}], {"CPU": 2}, 2),
        ([CPU] * 3, [{"CPU": 8}], {"GPU": 0}, 3),
        ([GPU] * 3, [{"GPU": 3}, {"GPU": 4}], {}, 3),
        ([GPU] * 9, [{"GPU": 3}, {"GPU": 4}], {}, 3),
        ([CPU, GPU], [{"GPU": 2}, {"CPU": 1}], {}, 2),
        ([{"CPU": 0.5}] * 5, [{"CPU": 2}], {}, 4),
        ([CPU], [], {}, 0),
    ],
)
def test_the_largest_gang_that_empty_nodes_hold(members, nodes, limits, most):
    assert most_members(members, nodes, limits) == most


def test_members_that_ask_for_memory_of_gpus_are_counted_card_by_card():
    gib = 2**30
    nodes = [{"GPU": 2, "gpu_memory": 80 * gib}, {"GPU": 1, "gpu_memory": 40 * gib}]
    nodes = [{**node, "gpu_cards": node["GPU"]} for node in nodes]
    asks = {"GPU": 1, "gpu_cards": 1, "gpu_memory": 30 * gib}
    assert most_members([asks] * 9, nodes) == 5
    assert most_members([asks] * 9, nodes, {"GPU": 1}) == 5, "a limit of GPUs is counted later"
    assert why_none({**asks, "gpu_memory": 90 * gib}, nodes) == (
        "a member asks for 90 GiB of gpu_memory on each GPU, and the largest GPU has 80 GiB"
    )
    assert "nvidia-cuda-mps-control" in why_none({**asks, "gpu_mps": 1}, nodes)
    assert "no node knows the memory" in why_none(asks, [{"GPU": 1}])
    nodes = [{**node, "gpu_memory_limit": node["gpu_memory"]} for node in nodes]
    assert why_none({**asks, "gpu_memory_limit": 90 * gib}, nodes) == (
        "a member asks for 90 GiB of gpu_memory_limit on each GPU, and the largest GPU has 80 GiB"
    )
    assert why_none({**asks, "GPU": 3, "gpu_cards": 3}, nodes) == (
        "a member asks for 3 GPU, and the largest node has 2 GPU"
    )
    with pytest.raises(GangInfeasibleError) as refused:
        check_side_by_side("job a", "default", [{**asks, "gpu_memory": 50 * gib}] * 9, {}, [nodes])
    assert "each asks for 1 GPU, 50 GiB gpu_memory, and its 2 nodes" in str(refused.value)


def test_parts_of_split_gpus_that_no_node_has():
    asks = {"GPU": 1, "nvidia.com/mig-1g.10gb": 1}
    assert why_none(asks, [{"GPU": 1}]) == (
        "a member asks for nvidia.com/mig-1g.10gb, and no GPU is split (MIG)"
    )
    split = {"GPU": 5, "nvidia.com/mig-2g.20gb": 3, "nvidia.com/mig-3g.40gb": 2}
    assert why_none(asks, [{"GPU": 1}, split]) == (
        "a member asks for nvidia.com/mig-1g.10gb, and the split GPUs (MIG) have only "
        "nvidia.com/mig-2g.20gb, nvidia.com/mig-3g.40gb"
    )
    many = {"GPU": 4, "nvidia.com/mig-2g.20gb": 4}
    assert why_none(many, [split]) == (
        "a member asks for 4 nvidia.com/mig-2g.20gb, and the largest node has 3 "
        "nvidia.com/mig-2g.20gb"
    )


def test_why_no_node_holds_a_member():
    nodes = [{"CPU": 4, "GPU": 1}, {"CPU": 1, "GPU": 8}]
    assert why_none({"GPU": 8}, nodes) == ""
    assert why_none({"GPU": 9}, nodes) == "a member asks for 9 GPU, and the largest node has 8 GPU"
    assert "no single node" in why_none({"GPU": 8, "CPU": 4}, nodes)
    assert "the largest node has 0 TPU" in why_none({"TPU": 1}, nodes)
    of_memory = why_none({"memory": 100 * 2**30}, [{"memory": 1.5 * 2**30}])
    assert of_memory == "a member asks for 100 GiB memory, and the largest node has 1.5 GiB memory"


def shares(queues, busy, total):
    specs = [QueueSpec(name="root"), *(QueueSpec(**fields) for fields in queues)]
    return {q.name: dict(q.deserved).get("cpu", 0.0) for q in with_deserved(specs, busy, total)}


def test_busy_queues_deserve_by_weight():
    queues = [{"name": "a", "weight": 2}, {"name": "b"}, {"name": "c", "weight": 5}]
    found = shares(queues, {"a", "b"}, {"cpu": 9.0})
    assert found == {"root": 0.0, "a": 6.0, "b": 3.0, "c": 0.0}


def test_what_somebody_set_stays_and_limits_hold():
    queues = [
        {"name": "a", "deserved": (("cpu", 1.0),)},
        {"name": "b", "capability": (("cpu", 2.0),)},
        {"name": "c", "guarantee": (("cpu", 5.0),)},
    ]
    found = shares(queues, {"a", "b", "c"}, {"cpu": 9.0})
    assert found == {"root": 0.0, "a": 1.0, "b": 2.0, "c": 5.0}


@pytest.mark.parametrize(
    ("queues", "total", "deserve"),
    [
        # Four GPUs, all of them guaranteed to one queue, which says that it deserves them.
        ({"qs": {"guarantee": 4, "deserved": 4, "capability": 4}, "default": {}}, 4, [4, 0]),
        # A guarantee without a deserved amount.
        ({"qs": {"guarantee": 4}, "default": {}}, 4, [4, 0]),
        ({"qs": {"guarantee": 3}, "default": {}}, 4, [3, 1]),
        ({"qs": {"guarantee": 1}, "default": {}}, 4, [2, 2]),
        ({"qs": {"guarantee": 3, "deserved": 2}, "default": {}}, 4, [2, 1]),
        # A deserved amount without a guarantee.
        ({"qs": {"deserved": 3}, "default": {}}, 4, [3, 1]),
        # Several queues of each kind.
        ({"qs": {"deserved": 4}, "a": {}, "b": {"weight": 3}}, 8, [4, 1, 3]),
        ({"qs": {"guarantee": 4}, "a": {}, "b": {"weight": 3}}, 8, [4, 1, 3]),
        ({"qs": {"guarantee": 5}, "r": {"guarantee": 2}, "a": {}}, 9, [5, 2, 2]),
        ({"qs": {"guarantee": 4}, "r": {"guarantee": 3}, "a": {}}, 8, [4, 3, 1]),
        ({"qs": {"guarantee": 4}, "r": {"deserved": 3}, "a": {}}, 8, [4, 3, 1]),
        # More is promised than there is.
        ({"qs": {"deserved": 6}, "r": {"guarantee": 6}, "a": {}}, 8, [6, 6, 0]),
    ],
)
def test_weights_share_out_what_others_leave(queues, total, deserve):
    """In Volcano a queue without a deserved amount deserves nothing. Here it deserves a part by its
    weight, of what the deserved amounts and guarantees of other queues leave.
    """

    def written(fields):
        return {k: v if k == "weight" else (("cpu", float(v)),) for k, v in fields.items()}

    specs = [{"name": name, **written(fields)} for name, fields in queues.items()]
    found = shares(specs, set(queues), {"cpu": float(total)})
    assert [found[name] for name in queues] == deserve


def test_who_says_what_it_deserves_of_gpus_gets_a_part_of_cpus_by_weight():
    queues = [
        QueueSpec(name="root"),
        QueueSpec(name="qs", deserved=(("nvidia.com/gpu", 4.0),), weight=3),
        QueueSpec(name="x", parent="qs", capability=(("cpu", 5.0),)),
        QueueSpec(name="default"),
    ]
    total = {"cpu": 8.0, "nvidia.com/gpu": 4.0}
    found = {q.name: dict(q.deserved) for q in with_deserved(queues, {"x", "default"}, total)}
    assert found["default"] == {"cpu": 2.0, "nvidia.com/gpu": 0.0}
    assert found["qs"] == {"cpu": 6.0, "nvidia.com/gpu": 4.0}
    assert found["x"] == {"cpu": 5.0, "nvidia.com/gpu": 4.0}


def test_an_idle_queue_keeps_nothing_from_others():
    queues = [
        {"name": "qs", "deserved": (("cpu", 4.0),), "guarantee": (("cpu", 4.0),)},
        {"name": "a"},
        {"name": "b"},
    ]
    found = shares(queues, {"a", "b"}, {"cpu": 4.0})
    assert found == {"root": 0.0, "qs": 4.0, "a": 2.0, "b": 2.0}


@pytest.mark.parametrize("promise", ["deserved", "guarantee"])
def test_what_is_promised_below_a_queue_is_promised_to_it(promise):
    queues = [
        {"name": "lab"},
        {"name": "x", "parent": "lab", promise: (("cpu", 4.0),)},
        {"name": "default"},
    ]
    found = shares(queues, {"x", "default"}, {"cpu": 4.0})
    assert found == {"root": 0.0, "lab": 4.0, "x": 4.0, "default": 0.0}
    assert shares(queues, {"default"}, {"cpu": 4.0})["default"] == 4.0


def test_children_share_what_their_parent_leaves():
    queues = [
        {"name": "lab"},
        {"name": "x", "parent": "lab", "guarantee": (("cpu", 3.0),)},
        {"name": "y", "parent": "lab"},
        {"name": "other", "deserved": (("cpu", 4.0),)},
    ]
    found = shares(queues, {"x", "y", "other"}, {"cpu": 8.0})
    assert found == {"root": 0.0, "lab": 4.0, "x": 3.0, "y": 1.0, "other": 4.0}


def test_children_share_what_their_parent_deserves():
    queues = [
        {"name": "lab"}, {"name": "x", "parent": "lab", "weight": 3},
        {"name": "y", "parent": "lab"}, {"name": "other"},
    ]  # fmt: skip
    assert shares(queues, {"x", "y", "other"}, {"cpu": 8.0}) == {
        "root": 0.0, "lab": 4.0, "x": 3.0, "y": 1.0, "other": 4.0,
    }  # fmt: skip
    assert shares(queues, {"y"}, {"cpu": 8.0})["y"] == 8.0


def test_queues_with_paths_share_by_the_weights_of_their_steps():
    def queue(path, weights, **fields):
        name = path.replace("/", "-")
        return {"name": name, "hierarchy_path": path, "hierarchy_weights": weights, **fields}

    queues = [
        queue("root/eng/prod", "1/2/8"), queue("root/eng/dev", "1/2/2"),
        queue("root/sci/prod", "1/7/3"), {"name": "plain"},
    ]  # fmt: skip
    names = [fields["name"] for fields in queues]
    assert shares(queues, set(names), {"cpu": 100.0}) == {
        "root": 0.0, "root-eng-prod": 16.0, "root-eng-dev": 4.0, "root-sci-prod": 70.0,
        "plain": 10.0,
    }  # fmt: skip
    assert shares(queues, {"root-eng-dev", "plain"}, {"cpu": 90.0}) == {
        "root": 0.0, "root-eng-prod": 0.0, "root-eng-dev": 60.0, "root-sci-prod": 0.0,
        "plain": 30.0,
    }  # fmt: skip
    bounded = [queue("root/a", "1/1", capability=(("cpu", 5.0),)), queue("root/b", "1/1")]
    assert shares(bounded, {"root-a", "root-b"}, {"cpu": 90.0})["root-a"] == 5.0


# However busy the machine is, what is drawn is the same.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=6))
def test_weights_share_out_all_of_it(drawn):
    queues = [{"name": f"q{i}", "weight": weight} for i, (weight, _) in enumerate(drawn)]
    busy = {f"q{i}" for i, (_, is_busy) in enumerate(drawn) if is_busy}
    found = shares(queues, busy, {"cpu": 100.0})
    assert sum(found.values()) == pytest.approx(100.0 if busy else 0.0)


def test_ranks_stay_when_those_come_that_waited_for_others():
    groups = tuple(TaskGroup(name=name, replicas=2) for name in ("master", "worker"))
    job = JobSpec(name="mpi", groups=groups)

    def ranks(*placed, later=()):
        places = {key: MemberPlace(node="n", address="1.2.3.4") for key in placed}
        gang = PlacedGang(job=job, places=places, later=later)
        found = {}
        for key in placed:
            env = member_setup(gang, *key).env
            found[key] = (int(env["RANK"]), int(env["WORLD_SIZE"]))
        return found

    masters = (("master", 0), ("master", 1))
    workers = (("worker", 0), ("worker", 1))
    assert ranks(*workers, later=masters) == {workers[0]: (2, 4), workers[1]: (3, 4)}
    assert ranks(*workers, *masters) == {
        masters[0]: (0, 4), masters[1]: (1, 4), workers[0]: (2, 4), workers[1]: (3, 4),
    }  # fmt: skip
    assert ranks(*workers) == {workers[0]: (0, 2), workers[1]: (1, 2)}


def gang(number, *, state=WAITING, queue="default", size=2):
    return Gang(
        gang_id=number.to_bytes(4, "big"), name=f"g{number}", queue=queue, priority=0,
        min_members=size, creator=b"", created=float(number),
        members=[Member(need=CPU, state=state) for _ in range(size)],
    )  # fmt: skip


def put(gang, state, members=(0, 1)):
    for index in members:
        gang.members[index].state = state


def test_of_two_gangs_with_one_name_the_one_that_lives_goes_on():
    ending, next_one, other, older = (gang(i) for i in (3, 1, 2, 0))
    ending.name = next_one.name = older.name = "same"
    ending.is_removed = True
    kept, twins = one_of_each_name([ending, next_one, other, older])
    assert kept == [next_one, other]
    assert sorted(twin.created for twin in twins) == [0.0, 3.0]


def test_of_equal_gangs_only_the_first_are_looked_at():
    window = CycleWindow()
    gangs = [gang(i) for i in range(WINDOW + 5)]
    for one in gangs:
        window.add(one)
    assert list(window.next(gangs)) == gangs[:WINDOW]
    assert list(window.next(gangs)) == []
    put(gangs[0], HELD)
    window.remove(gangs[WINDOW])
    assert list(window.next(gangs[1:])) == [gangs[WINDOW + 1]]
    other = gang(100, size=3)
    elsewhere = gang(101, queue="lab")
    window.add(other)
    window.add(elsewhere)
    assert list(window.next(gangs[1:])) == [other, elsewhere]


def test_more_are_looked_at_while_all_find_room():
    window = CycleWindow()
    window.most = 3 * WINDOW
    gangs = [gang(number) for number in range(10 * WINDOW)]
    for one in gangs:
        window.add(one)
    shown = []

    def show():
        return list(window.next([one for one in gangs if one.waits]))

    for _ in range(4):
        shown.append(show())
        for one in shown[-1]:
            put(one, HELD)
    assert [len(these) for these in shown] == [WINDOW, 2 * WINDOW, 3 * WINDOW, 3 * WINDOW]
    put(shown[-1][0], WAITING)
    assert len(show()) == WINDOW - 1, "one of them found none"


def test_gangs_that_hold_places_are_always_looked_at():
    window = CycleWindow()
    for number in range(WINDOW):
        window.add(gang(number))
    holding = gang(500, state=HELD)
    window.add(holding)
    assert window.sees(holding)


def test_a_gang_waits_runs_and_is_over():
    one = gang(1)
    assert (one.waits, one.phase, one.is_over) == (True, "pending", False)
    put(one, HELD)
    assert (one.waits, one.phase) == (False, "running")
    put(one, DONE, [0])
    assert PodGroups().podgroup(one).min_member == 1
    put(one, DONE, [1])
    assert (one.is_over, one.phase) == (True, "completed")


def placed(gang, index, device, *, ports=(1,), held=1, least=1):
    return {
        "event": "MembersPlaced", "gang": gang, "places": [(index, "n", {"GPU": [device]})],
        "ports": list(ports), "held": held, "min_members": least,
    }  # fmt: skip


def freed(gang, *members):
    return {"event": "MembersFreed", "gang": gang, "members": list(members)}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([placed("a", 0, 0), placed("b", 0, 1, ports=(2,))], ""),
        ([placed("a", 0, 0), placed("b", 0, 0, ports=(2,))], "('n', 'GPU', 0) of ('a', 0)"),
        ([placed("a", 0, 0), freed("a", 0), placed("b", 0, 0)], ""),
        ([placed("a", 0, 0), placed("b", 0, 1)], "port 1 of a is given to b"),
        ([placed("a", 0, 0), placed("a", 0, 1)], "is placed where it has a place"),
        ([placed("a", 0, 0, held=1, least=2)], "a begins with 1 of the 2"),
    ],
)
def test_the_checker_of_random_runs_sees_what_must_not_be(rows, words):
    found = list(faults(rows))
    assert bool(found) == bool(words)
    assert words in " ".join(found)
    assert left([*rows, freed("a", 0), freed("b", 0)]) == set()


def test_what_is_read_in_while_idle_is_all_that_the_first_job_needs():
    program = """
import sys
from phalanx.api.job import Job
from phalanx.api.new_manifests import job_manifest
from phalanx.runtime.head.warming import Warming
from phalanx.protocol.requests.jobs import ApplyManifests
sys.path.insert(0, sys.argv[1])
from tests.world.clock import ManualClock
from tests.world.head import ask, make_head
from phalanx.protocol.bundle_messages import PrepareBundles
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.report_messages import NodeReport
sent, clock, free, prefix = [], ManualClock(), {"CPU": 4.0}, bytes(6)
head = make_head(lambda to, message: sent.append(message), clock, is_alone=True)
head.join_alone(ViewRow("n0", prefix, "", 0, "ALIVE", total=free, available=free, labels={}))
head.on_message(prefix, NodeReport(available=free))
job = job_manifest(Job("true", working_dir="/").spec())
warming = Warming()
while warming.step():
    pass
before = set(sys.modules)
ask(head, ApplyManifests([job]))
clock.time_s += 5.0
head.on_round(clock.time_s)
assert [PrepareBundles] == [type(one) for one in sent if isinstance(one, PrepareBundles)]
print(sorted(set(sys.modules) - before))
"""
    tests = str(Path(__file__).parents[4])
    done = subprocess.run(
        [sys.executable, "-c", program, tests], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr

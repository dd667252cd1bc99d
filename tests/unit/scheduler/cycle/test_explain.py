"""The reasons why a task or a gang waits, as codes and as sentences."""

from __future__ import annotations

import pytest
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.test_tables import CASES, snapshot_of

from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.explain import REASONS, sentence
from phalanx.scheduler.cycle.remedies import REMEDIES, remedy
from phalanx.scheduler.forecast.planner import lent

TABLE = """
use allocate, reclaim | gang, virtual-clusters(cells={a: {node: 1}, b: {node: 1}}) | predicates

case cell t 1 node is in no cell that queue a may use: all 1 cells of level node that it is promised are in use
node n 4c 4G 4gpu
node m 4c 4G 4gpu
queue a
queue b
gang one a min=1 phase=Running
gang g a min=1
task one one 1c 1G 4gpu @n
task t g 1c 1G 1gpu

case cell-borrowed t its cells are free, but opportunistic work holds GPUs there: free
node n 4c 4G 4gpu
queue a
queue b
gang free b min=1 prio=-1 phase=Running
gang g a min=1
task free free 1c 1G 4gpu @n
task t g 1c 1G 4gpu

case cell-needed g queue c is kept from evictions, so its jobs need cells of their own
node n 4c 4G 4gpu
queue c keep
gang g c min=1
task t g 1c 1G 1gpu

use allocate | predicates

case labels t no node has the labels asked for: disk=ssd (1 node has it), gpu=a100 (0 nodes have it)
node n 2c 2G disk=ssd
node m 2c 2G
queue q
gang g q min=1
task t g 1c 1G sel.gpu=a100 sel.disk=ssd

use enqueue, allocate, preempt | priority, gang | overcommit, drf, predicates, proportion, nodeorder

case gang-tasks-missing g submit 1 more
node n 9c 9G
queue q
gang g q min=3
task t g 1c 1G x2

case gang-not-whole g 2 of 3 tasks would find room
node n 2c 2G
queue q
gang g q min=3
task t g 1c 1G x3

case gang-not-whole g 1 of 2 tasks would find room on different nodes, so none starts
node n 2c 2G ray.io/node-id=n
node m 2c 2G ray.io/node-id=m
queue q
gang r q min=1 phase=Running
gang g q min=2
task r r 2c 1G @m fixed
task t g 1c 1G lab.a=b role=t {affinity: {pod_anti_affinity_required: [{topology_key: ray.io/node-id, match_labels: {a: b}}]}}
task u g 1c 1G lab.a=b role=u {affinity: {pod_anti_affinity_required: [{topology_key: ray.io/node-id, match_labels: {a: b}}]}}

case gang-never-fits g its nodes, even empty, hold 2 of the 3 tasks on different nodes that it needs at once
node n 9c 9G ray.io/node-id=n
node m 9c 9G ray.io/node-id=m
queue q
gang g q min=3
task t g 1c 1G x3 lab.a=b {affinity: {pod_anti_affinity_required: [{topology_key: ray.io/node-id, match_labels: {a: b}}]}}

case gang-never-fits g hold 1 of the 2 tasks on different values of the label zone that it needs at once
node n 9c 9G zone=a
node m 9c 9G zone=a
queue q
gang g q min=2
task t g 1c 1G x2 lab.a=b {affinity: {pod_anti_affinity_required: [{topology_key: zone, match_labels: {a: b}}]}}

case never-fits t largest
node n 2c 2G
queue q
gang g q min=1
task t g 3c 1G

case never-fits-there t no node that it may use, even empty, has 3 CPU (largest 2)
node n 2c 4G disk=ssd
node m 4c 4G
queue q
gang g q min=1
task t g 3c 1G sel.disk=ssd

case gang-never-fits g its nodes, even empty, hold 2 of the 3 tasks that it needs at once
node n 2c 4G
node m 2c 4G
queue q
gang g q min=3
task t g 2c 1G x3

case resource t 1 node lacks CPU (needs 3, most free 2)
node n 4c 4G
queue q
gang r q min=1 phase=Running
gang g q min=1
task r r 2c 1G @n fixed
task t g 3c 1G

case labels t no node has the labels
node n 2c 2G
queue q
gang g q min=1
task t g 1c 1G sel.disk=ssd

case taints t every node has a taint
node n 2c 2G !gone=:NoSchedule
queue q
gang g q min=1
task t g 1c 1G

case queue-closed t not open
node n 2c 2G
queue q closed
gang g q min=1
task t g 1c 1G

case queue-missing g there is no queue nowhere
node n 2c 2G
queue q
gang g nowhere min=1
task t g 1c 1G

case queue-capability g may use 1 CPU and uses 0; this asks for 2 more
node n 9c 9G
queue q cap=1c,9G
gang g q min=1 res=2c,1G phase=Pending
task t g 2c 1G

case cluster-overcommitted g can promise
node n 1c 1G
queue q
gang g q min=1 res=2c,1G phase=Pending
task t g 2c 1G

case behind h 1 is ahead of it in queue q
node n 1c 1G
queue q
gang g q min=2 prio=9
gang h q min=2
task t g 1c 1G x2
task u h 1c 1G x2

case no-nodes t there are no nodes
queue q
gang g q min=1
task t g 1c 1G

case waiting-for-release b promised node n
node n 1c 1G
queue q
gang low q min=0 prio=1
gang high q min=1 prio=9
task a low 1c 1G @n
task b high 1c 1G

case gang-promised high 2 of 2 tasks are promised room
node n 2c 2G
queue q
gang low q min=0 prio=1
gang high q min=2 prio=9
task a low 1c 1G @n x2
task b high 1c 1G x2

case waiting-for-gang t it could run on n once the rest
node n 2c 2G
queue q
gang old q min=1 phase=Running
gang g q min=2
task a old 1c 1G @n phase=Releasing
task t g 1c 1G x2

case gang-member g task default/u of the gang
node n 2c 2G
queue q
gang g q min=2
task t g 1c 1G prio=2
task u g 1c 1G sel.disk=ssd

case gang-role g role b lacks room for 1
node n 2c 2G
queue q
gang g q min=3 roles=a:1,b:2
task t g 1c 1G role=a
task u g 1c 1G role=b x2

case gang-role-short g fewer tasks than its minimum a 2
node n 9c 9G
queue q
gang g q min=2 roles=a:2
task t g 1c 1G role=a
task u g 1c 1G role=b

case no-single-node t none of 2 nodes has all of that at once
node a 4c 1G
node b 1c 4G
queue q
gang g q min=1
task t g 2c 2G

case podgroup-missing t there is no podgroup default/nobody
node n 2c 2G
queue q
task t nobody 1c 1G

case unschedulable t no node is open to new tasks
node n 2c 2G {unschedulable: true}
queue q
gang g q min=1
task t g 1c 1G

case slots t 1 node has no slot
node n 2c 2G pods=1
queue q
gang r q min=1 phase=Running
gang g q min=1
task r r 1c 1G @n fixed
task t g 1c 1G

case ports t 1 node has a port in use
node n 2c 2G
queue q
gang r q min=1 phase=Running
gang g q min=1
task r r 1c 1G @n fixed {ports: [80]}
task t g 1c 1G {ports: [80]}

case pod-affinity t 1 node is not near
node n 2c 2G zone=a
queue q
gang g q min=1
task t g 1c 1G {affinity: {pod_affinity_required: [{topology_key: zone, match_labels: {a: b}}]}}

case pod-anti-affinity t 1 node is near tasks
node n 2c 2G zone=a
queue q
gang r q min=1 phase=Running
gang g q min=1
task r r 1c 1G @n fixed lab.a=b
task t g 1c 1G {affinity: {pod_anti_affinity_required: [{topology_key: zone, match_labels: {a: b}}]}}

case spread t 1 node would make its spread uneven
node n 2c 2G zone=a
node m 1c 1G zone=b
queue q
gang r q min=1 phase=Running
gang g q min=1
task r r 1c 1G @n fixed lab.a=b
task t g 2c 1G lab.a=b {topology_spread: [{topology_key: zone, match_labels: {a: b}}]}

case spread-label t 1 node lacks the label it spreads over
node n 2c 2G
queue q
gang g q min=1
task t g 1c 1G lab.a=b {topology_spread: [{topology_key: zone, match_labels: {a: b}}]}

use enqueue, allocate | priority, gang | proportion

case fits-alone t 1 node has room for it alone
node n 2c 2G
queue q
gang g q min=3
task t g 1c 1G x3

case queue-overused t holds all it deserves
node n 2c 2G
queue q cap=1c,1G,pods=1
gang r q min=1 phase=Running
gang g q min=1
task r r 1c 1G @n
task t g 1c 1G

case not-tried g no action tried
node n 2c 2G
queue q cap=1c,1G,pods=1
gang r q min=1 phase=Running
gang g q min=1
task r r 1c 1G @n
task t g 1c 1G

case queue-quota t queue q may hold 1 CPU and holds
node n 2c 2G
queue q cap=1c,1G
gang r q min=1 phase=Running
gang g q min=1
task r r 1c 1G @n
task t g 1c 1G

case not-let-in g has not been let into its queue
node n 1c 1G
queue q
gang g q min=1 res=2c,1G phase=Pending
task t g 2c 1G

use enqueue, allocate | gang | capacity(on=[allocatable, jobEnqueued, queueOrder, hierarchy])

case queue-quota g queue p may hold 3 CPU and holds
node n 9c 9G
queue root
queue p parent=root cap=3c,9G
queue q parent=p
gang g q min=2
task t g 2c 1G x2

case queue-quota g queue p may hold 5 CPU and holds
node n 9c 9G
queue root
queue p parent=root cap=5c,9G
queue q parent=p
gang g q min=4
task t g 2c 1G x4

case gang-not-whole g 2 of 4 tasks would find room
node n 9c 9G
queue root
queue p parent=root cap=5c,9G
queue q parent=p
gang g q min=4
task t g 2c 1G x4

case queue-not-leaf g queue p has queues below it
node n 9c 9G
queue root
queue p parent=root
queue q parent=p
gang g p min=1 res=1c phase=Pending

case queue-tree t parents are missing, form a cycle
node n 9c 9G
queue root
queue p parent=nowhere
gang g p min=1
task t g 1c 1G

use allocate, reclaim | gang(on=[jobOrder, jobReady, jobStarving, jobPipelined]), capacity(on=[allocatable, preemptive, reclaimable, queueOrder, hierarchy]; onlyExcess=true)

case held-by-right t no GPU can be reclaimed from other queues: default holds 2 and deserves 2
node n 8c 8G 4gpu
queue root
queue qs des=4gpu
queue default des=2gpu
gang bg default min=1 phase=Running
gang s qs min=2 phase=Running
gang g qs min=2
task b bg 1c 1gpu @n x2
task s s 1c 1gpu @n x2
task t g 1c 1gpu x2

case held-by-right t no GPU can be reclaimed from other queues: default holds 4 and is not reclaimable
node n 8c 8G 4gpu
queue root
queue qs des=4gpu
queue default keep
gang bg default min=1 phase=Running
gang g qs min=2
task b bg 1c 1gpu @n x4
task t g 1c 1gpu x2

case deserves-no-more t queue qs deserves 2 GPU and holds 1: it cannot reclaim 2 more from other queues
node n 8c 8G 4gpu
queue root
queue qs des=2gpu
queue default des=2gpu
gang bg default min=1 phase=Running
gang s qs min=1 phase=Running
gang g qs min=2
task b bg 1c 1gpu @n x3
task s s 1c 1gpu @n
task t g 1c 1gpu x2

case deserves-no-more t queue qs deserves 1.5 GiB memory and holds 1.0 GiB: it cannot reclaim
node n 8c 4Gi
queue root
queue qs des=1.5Gi
queue default des=2Gi
gang bg default min=1 phase=Running
gang s qs min=1 phase=Running
gang g qs min=1
task b bg 1c 1Gi @n x3
task s s 1c 1Gi @n
task t g 1c 1Gi

case resource t 1 node lacks memory (needs 2.0 GiB, most free 1.0 GiB)
node n 8c 2Gi
queue root
queue q
gang r q min=1 phase=Running
gang g q min=1
task r r 1c 1Gi @n
task t g 1c 2Gi

use enqueue, allocate | gang | fifo(strict=true)

case queue-full t admits no more tasks like this
node n 2c 2G
queue q
gang big q min=1 {created: 1}
gang g q min=1 {created: 2}
task b big 9c 1G
task t g 1c 1G

use enqueue, allocate | gang | limits(users={bob: {cpu: 3}})

case user-limit g user bob may use 3 CPU, and would use 4
node n 9c 9G
queue q
gang g q min=2 {user: bob}
task t g 2c 1G x2

use allocate | gang | limits, predicates

case user-jobs g user bob in queue q may run 1 jobs at a time, and 1 run
node n 9c 9G
queue q {annotations: {phalanx/limits: '{"bob": {"running": 1}}'}}
gang big q min=1 {user: bob}
gang g q min=1 {user: bob}
task b big 1c 1G @n
task t g 1c 1G

use enqueue, allocate | gang | resourcequota

case namespace-quota g its namespace may use 1 CPU, and would use 2
node n 9c 9G
queue q
quota default 1c
gang g q min=1 res=2c phase=Pending
task t g 2c 1G

use enqueue, allocate | gang | nodegroup

case node-group t 1 node is not in a node group
node n 2c 2G volcano.sh/nodegroup-name=a
queue q {affinity: {nodegroup_affinity: {required: [b]}}}
gang g q min=1
task t g 1c 1G

case node-group-limit t 1 node is in a group where its queue is at its limit
node n 2c 2G volcano.sh/nodegroup-name=a
queue q {affinity: {nodegroup_affinity: {required: [a]}}, annotations: {volcano.sh/nodegroup-resource-limits: '{"a": {"cpu": "500m"}}'}}
gang g q min=1
task t g 1c 1G

use enqueue, allocate | gang | tdm(tdm.revocable-zone.z=10:00-11:00)

case revocable-zone t 1 node is lent out
node n 2c 2G volcano.sh/revocable-zone=z
queue q
gang g q min=1
task t g 1c 1G

use enqueue, allocate | gang | usage

case usage t 1 node is busier than the threshold
node n 2c 2G {usage: {cpu: 99}}
queue q
gang g q min=1
task t g 1c 1G

use enqueue, allocate | gang | numa-aware

case numa t 1 node cannot hold it on the NUMA nodes
node n 2c 2G {numa: [{cpu: 1}, {cpu: 1}]}
queue q
gang g q min=1
task t g 2c 1G {annotations: {volcano.sh/numa-topology-policy: single-numa-node}}

use enqueue, allocate | gang | deviceshare

case devices t 1 node has no device
node n 2c 2G {devices: [{memory: 100}]}
queue q
gang g q min=1
task t g 1c 1G 200volcano.sh/gpu-memory

use enqueue, allocate | gang | gpu-sharing

case gpu-memory t 1 node has no room on 1 GPU (needs 200 B of gpu_memory on each
node n 2c 2G 1gpu 100gpu_memory
queue q
gang g q min=1
task t g 1c 1G 1gpu 1gpu_cards 200gpu_memory

use enqueue, allocate | gang | resource-strategy-fit(proportional={enable: true, resources: gpu})

case proportion t 1 node would keep too little
node n 2c 2G 2gpu
queue q
gang g q min=1
task t g 1c 1G

use enqueue, allocate | gang | predicates, reservation

case reserved t 1 node is kept for work that was promised places
node n 2c 2G
queue q
gang r q min=1 phase=Running {run_time_s: 10, started: 0}
gang big q min=2 {created: 1}
gang g q min=1 {created: 2, run_time_s: 100}
task a r 1c 1G @n
task b big 1c 1G x2
task t g 1c 1G

case promised big places are promised to it, in 10s
node n 2c 2G
queue q
gang r q min=1 phase=Running {run_time_s: 10, started: 0}
gang big q min=2 {created: 1}
gang g q min=1 {created: 2, run_time_s: 100}
task a r 1c 1G @n
task b big 1c 1G x2
task t g 1c 1G

case no-room-yet g all room is taken, or kept
node n 2c 2G
queue q
gang r q min=1 phase=Running {run_time_s: 10, started: 0}
gang big q min=2 {created: 1}
gang g q min=1 {created: 2, run_time_s: 100}
task a r 1c 1G @n
task b big 1c 1G x2
task t g 1c 1G

use enqueue, allocate | gang | network-topology-aware, predicates

case topology g no network domain within its highest tier has room for the gang
node a 2c 2G
node b 2c 2G
net n 1 a
net m 1 b
net x 2 n,m
queue q
gang g q min=3 hard=1
task t g 1c 1G x3

case gang-subgroup g subgroups default/g/s lack room for 1
node a 3c 3G
queue q
gang g q min=4 {subgroup_policies: [{name: s, match_label_keys: [part], subgroup_size: 2, min_subgroups: 2}]}
task t g 1c 1G lab.part=x x2
task u g 1c 1G lab.part=y x2

case gang-subgroups-short g fewer subgroups than its minimum default/g/s 2
node a 3c 3G
queue q
gang g q min=2 {subgroup_policies: [{name: s, match_label_keys: [part], subgroup_size: 2, min_subgroups: 2}]}
task t g 1c 1G lab.part=x x2

use allocate | gang | predicates, selector(allow_cpu_jobs_on_gpu_nodes=false; same_rack=require)

case gpu-type t no node has a GPU of the type it asks for
node n 9c 9G 2gpu ray.io/accelerator-type=K80
queue q
gang g q min=1
task t g 1c 1G 1gpu sel.ray.io/accelerator-type=M40

case cpu-only t 1 node is kept for work
node n 9c 9G 2gpu
queue q
gang g q min=1
task t g 1c 1G

case tried t 1 node was tried for it a moment ago without success
node n 9c 9G 2gpu
queue q
gang g q min=1 {tried: {n: {gpu: 2}}}
task t g 1c 1G 1gpu

case rack t 1 node is in other racks
node n 9c 9G 2gpu rack=1
node m 9c 9G 1gpu rack=2
queue q
gang g q min=1
task o g 1c 1G 1gpu @m
task t g 1c 1G 1gpu

case common-ports t 1 node lacks the ports
node n 9c 9G 2gpu {ports: [[5000, 5003]]}
queue q
gang g q min=1 {port_count: 9}
task t g 1c 1G 1gpu

use allocate | gang | licenses, calendar, predicates

case reserved-time t 1 node is reserved for r from 1970-01-01 00:01:40 UTC, and it has no time limit {reservations: [{name: r, places: {n: {}}, windows: [{begin: 100, end: 200}]}]}
node n 9c 9G
queue q
gang g q min=1
task t g 1c 1G

case reserved-time t r until 1970-01-01 00:03:20 UTC, and it may run for 30s {now: 150, reservations: [{name: r, places: {n: {}}, windows: [{begin: 100, end: 200}]}]}
node n 9c 9G
queue q
gang g q min=1 {run_time_s: 30}
task t g 1c 1G

case reservation-begins g its reservation r begins at 1970-01-01 00:01:40 UTC {reservations: [{name: r, places: {n: {}}, windows: [{begin: 100}]}]}
node n 9c 9G
queue q
gang g q min=1 {reservation: r}
task t g 1c 1G

case reservation-over g its reservation r is over, or was deleted
node n 9c 9G
queue q
gang g q min=1 {reservation: r}
task t g 1c 1G

case reservation-not-its-own g reservation r is for user ann, queue p {reservations: [{name: r, places: {n: {}}, windows: [{begin: 0}], users: [ann], queues: [p]}]}
node n 9c 9G
queue q
gang g q min=1 {reservation: r, user: bob}
task t g 1c 1G

case reservation-closed g reservation r is a maintenance {reservations: [{name: r, places: {n: {}}, windows: [{begin: 0}], maintenance: true}]}
node n 9c 9G
queue q
gang g q min=1 {reservation: r}
task t g 1c 1G

case outside-reservation t 1 node is outside its reservation r, or without room in it {reservations: [{name: r, places: {n: {cpu: 2, memory: 2.0e+9}}, windows: [{begin: 0}]}]}
node n 9c 9G
queue q
gang g q min=1 {reservation: r}
task t g 3c 1G

case license g 2 of 3 licenses of matlab are held by job o, and it asks for 2 {licenses: {matlab: 3}}
node n 9c 9G
queue q
gang o q min=1 {licenses: {matlab: 2}}
gang g q min=1 {licenses: {matlab: 2}}
task p o 1c 1G @n
task t g 1c 1G

case license-none g it asks for 4 licenses of matlab, and the cluster has 3 {licenses: {matlab: 3}}
node n 9c 9G
queue q
gang g q min=1 {licenses: {matlab: 4}}
task t g 1c 1G
"""  # noqa: E501 -- one line a thing


@pytest.mark.parametrize("case", cases(TABLE), ids=lambda c: c["name"])
def test_reason(case: dict[str, str]) -> None:
    reason, who, *words = case["name"].split(" ")
    plan = run_cycle(snapshot_of(case), shells=lent())
    found = plan.rejections[f"default/{who}" if who != "t" else _first_task(plan.rejections)]
    assert reason in [r.reason for r in found]
    name = f"default/{who}" if who != "t" else _first_task(plan.rejections)
    assert " ".join(words) in " / ".join(map(sentence, plan.rejections[name]))


def _first_task(rejections: object) -> str:
    assert isinstance(rejections, dict)
    return next(str(n) for n in rejections if n.startswith("default/t"))


SBATCH = """
case sbatch
node n 2c 2G ray.io/node-id=n
queue q
gang g q min=2 {annotations: {slurm/name: wrap}}
task t g 1c 1G lab.a=b role=t {affinity: {pod_anti_affinity_required: [{topology_key: ray.io/node-id, match_labels: {a: b}}]}}
task u g 1c 1G lab.a=b role=u {affinity: {pod_anti_affinity_required: [{topology_key: ray.io/node-id, match_labels: {a: b}}]}}
"""  # noqa: E501 -- one line a thing


def test_who_used_sbatch_is_told_of_no_minimum() -> None:
    use = "use allocate | gang | predicates\n"
    (case,) = cases(use + SBATCH)
    plan = run_cycle(snapshot_of(case), shells=lent())
    changes = {r.reason: remedy(r) for r in plan.rejections["default/g"]}
    assert not any("minimum" in one or "--min" in one for one in changes.values())
    assert changes["gang-not-whole"] == (
        "make room for 1 more of its tasks on other nodes, or ask for fewer at once"
    )


def test_every_reason_has_a_sentence_a_remedy_and_a_case() -> None:
    elsewhere = {"extender"}  # test_extender
    assert set(REMEDIES) == set(REASONS)
    assert {c["name"].split(" ")[0] for c in cases(TABLE)} == set(REASONS) - elsewhere


@pytest.mark.parametrize("case", CASES)
def test_whatever_waits_says_why(case: dict[str, object]) -> None:
    snapshot = snapshot_of(case)
    plan = run_cycle(snapshot)
    for task in snapshot.tasks:
        if task.node or task.uid in plan.binds or task.phase != "Pending":
            continue
        own = plan.rejections.get(task.uid, ())
        gang = plan.rejections.get(f"{task.namespace}/{task.podgroup}", ())
        for r in (*own, *gang):
            assert r.reason in REASONS
        assert own, f"{task.uid} waits and nothing says why"
        for name in (task.uid, f"{task.namespace}/{task.podgroup}"):
            assert not any("{" in sentence(r) for r in plan.rejections[name])

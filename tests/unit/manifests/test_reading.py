"""Manifests are read: defaults, processes and warnings; and what was read is written back."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as hs
from tests.effort import examples

from phalanx.api.new_manifests import manifest_objects
from phalanx.manifests.check import check_manifests
from phalanx.manifests.findings import ManifestError
from phalanx.manifests.quantities import batch_amounts, quantity
from phalanx.manifests.reading import Manifest, read_checked, read_manifests
from phalanx.manifests.writing import as_data
from phalanx.model.jobs.spec import JobSpec, Policy, Port

HEAD = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\n"
EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "jobs").glob("*.yaml"))

FULL = (
    HEAD
    + """\
spec:
  minSuccess: 1
  ttlSecondsAfterFinished: 60
  priorityClassName: high
  plugins: {pytorch: [--master=boss], env: []}
  policies:
  - {event: PodEvicted, action: RestartJob}
  - {exitCode: 3, action: AbortJob, timeout: 1m30s}
  networkTopology: {mode: soft, highestTierAllowed: 2}
  tasks:
  - name: boss
    policies: [{events: [TaskCompleted, TaskFailed], action: CompleteJob}]
    template:
      metadata: {labels: {app: x}}
      spec:
        restartPolicy: OnFailure
        terminationGracePeriodSeconds: 5
        nodeSelector: {gpu: a100}
        tolerations: [{key: k, operator: Exists}]
        initContainers:
        - {name: fetch, command: [fetch], resources: {limits: {cpu: 4}}}
        containers:
        - name: train
          image: big/image:latest
          command: [python]
          args: [train.py, --lr, "0.1"]
          workingDir: /data
          env: [{name: A, value: b}, {name: EMPTY}]
          ports: [{containerPort: 8080, name: http}]
          resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 2, nvidia.com/gpu: 2}}
  - name: hands
    replicas: 4
    dependsOn: {name: [boss], iteration: any}
    partitionPolicy: {totalPartitions: 2, partitionSize: 2, minPartitions: 1}
    template: {spec: {containers: [{name: c, command: [sleep, "1"]}]}}
"""
)


def job(text: str) -> JobSpec:
    manifests, _ = read_checked(text)
    (spec,) = (m.spec for m in manifests)
    assert isinstance(spec, JobSpec)
    return spec


def test_defaults() -> None:
    spec = job(HEAD + "spec: {tasks: [{name: a, replicas: 2}, {replicas: 3, minAvailable: 1}]}")
    assert (spec.queue, spec.namespace, spec.max_retry) == ("default", "default", 3)
    assert spec.min_available == 3
    assert [(g.name, g.min_available, g.max_retry) for g in spec.groups] == [
        ("a", 2, 3),
        ("default1", 1, 3),
    ]
    assert spec.ttl_s is None
    assert spec.min_success is None


def test_everything_that_is_written_is_read() -> None:
    spec = job(FULL)
    boss, hands = spec.groups
    assert spec.plugins == (("pytorch", ("--master=boss",)), ("env", ()), ("svc", ()))
    assert spec.policies[1] == Policy(action="AbortJob", exit_code=3, timeout_s=90.0)
    assert boss.policies[0].events == ("TaskCompleted", "TaskFailed")
    template = boss.template
    assert (template.restart, template.grace_s) == ("OnFailure", 5.0)
    assert template.placement["nodeSelector"] == {"gpu": "a100"}
    (process,) = template.processes
    assert process.argv == ("python", "train.py", "--lr", "0.1")
    assert process.env == (("A", "b"), ("EMPTY", ""))
    assert process.ports == (Port(number=8080, name="http"),)
    assert process.needs == {"CPU": 0.5, "GPU": 2.0, "memory": 2.0**30}
    assert template.needs == {"CPU": 4.0, "GPU": 2.0, "memory": 2.0**30}
    assert batch_amounts(template.needs)[0] == ("cpu", 4.0)
    assert hands.min_available == 2
    assert spec.min_available == 3


def test_what_has_no_meaning_is_named_with_its_place() -> None:
    text = (
        HEAD
        + """\
spec:
  schedulerName: volcano
  colour: blue
  volumes: [{mountPath: /d, volumeClaimName: v}]
  tasks:
  - name: t
    template:
      spec:
        serviceAccountName: me
        volumes: [{name: v}]
        hostNetwork: true
        restartPolicy: Always
        containers:
        - image: i
          command: [sh, -c, "cat w.host"]
          volumeMounts: [{name: v}]
          env: [{name: A, valueFrom: {fieldRef: {}}}, {name: B, value: 5}]
          resources: {limits: {ephemeral-storage: 1Gi, rdma/hca: 1}}
---
kind: ConfigMap
"""
    )
    manifests, report = read_manifests(text)
    assert report.ok
    warned = {f.path.replace("spec.tasks[0].template.spec.", "~"): f.line for f in report.warnings}
    assert warned == {
        "~serviceAccountName": 12,
        "~volumes": 13,
        "~hostNetwork": 14,
        "~restartPolicy": 15,
        "~containers[0].image": 17,
        "~containers[0].volumeMounts": 19,
        "~containers[0].env[0].valueFrom": 20,
        "~containers[0].env[1].value": 20,
        "~containers[0].resources.limits.ephemeral-storage": 21,
        "spec.volumes[0]": 7,
        "spec.colour": 6,
        "kind": 23,
    }
    spec = manifests[0].spec
    assert isinstance(spec, JobSpec)
    (process,) = spec.groups[0].template.processes
    assert process.env == (("B", "5"),)
    assert process.image == "i"
    assert process.needs == {"rdma/hca": 1.0}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("kind: Job\nmetadata: {name: j}\napiVersion: batch/v1\nspec: {}", "wrong_api_version"),
        ("metadata: {name: j}", "kind_missing"),
        ("kind: Service\nmetadata: {name: s}", "nothing_here"),
        ("", "nothing_here"),
        ("- 1", "wrong_type"),
        (HEAD.replace("name: j", "generateName: j-") + "spec: {tasks: [{}]}", "name_missing"),
        (HEAD + "spec: [1]", "wrong_type"),
        (HEAD + "spec: {tasks: {a: 1}}", "wrong_type"),
        (HEAD + "spec: {tasks: [1]}", "wrong_type"),
        (HEAD + "spec: {tasks: [{name: [a]}]}", "wrong_type"),
        (HEAD + "spec: {tasks: [{replicas: true}]}", "wrong_type"),
        (HEAD + "spec: {tasks: [{template: {spec: {containers: [{command: x}]}}}]}", "wrong_type"),
    ],
)
def test_what_is_no_manifest(text, code) -> None:
    with pytest.raises(ManifestError) as refusal:
        read_checked(text)
    assert code in [f.code for f in refusal.value.findings]


def test_all_faults_are_told_at_once() -> None:
    text = HEAD + "spec:\n  minAvailable: 9\n  queue: 3\n  tasks:\n  - name: A\n  - replicas: -1\n"
    _, report = read_manifests(text)
    assert [(f.path, f.line) for f in report.errors] == [
        ("spec.tasks[0].name", 8),
        ("spec.tasks[1].replicas", 9),
        ("spec.queue", 6),
        ("spec.minAvailable", 5),
    ]
    assert {f.object for f in report.errors} == {"Job/j"}


def test_a_list_of_objects() -> None:
    one = "{kind: Queue, metadata: {name: %s}, spec: {}}"
    manifests, report = read_manifests(f"kind: List\nitems: [{one % 'a'}, {one % 'b'}]")
    assert report.ok
    assert [m.object for m in manifests] == ["Queue/a", "Queue/b"]


def again(manifests: list[Manifest]) -> list[Manifest]:
    return read_checked(yaml.safe_dump_all(map(as_data, manifests), sort_keys=False))[0]


def bare(manifests: list[Manifest]) -> list[Manifest]:
    return [msgspec.structs.replace(m, fields=None) for m in manifests]


OTHERS = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: q, annotations: {volcano.sh/hierarchy: a/b, volcano.sh/hierarchy-weights: 1/2}}
spec:
  weight: 3
  reclaimable: false
  parent: root
  capability: {cpu: 1500m, gpu: 2}
  deserved: {cpu: 1}
  guarantee: {resource: {cpu: 1}}
  affinity:
    nodeGroupAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [a]}
    nodeGroupAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [b]}
status: {state: Closed}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g, namespace: n}
spec:
  minMember: 2
  minTaskMember: {a: 1}
  minResources: {cpu: 3}
  subGroupPolicy: [{name: s, subGroupSize: 2, minSubGroups: 1, matchLabelKeys: [k]}]
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s0}
spec:
  tier: 1
  members:
  - {type: Node, selector: {exactMatch: {name: n1}}}
  - {type: Node, selector: {regexMatch: {pattern: "^m"}}}
  - {type: Node, selector: {labelMatch: {matchLabels: {rack: r1}}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
preemptionPolicy: Never
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: f}
spec:
  jobRetainPolicy: delete
  flows:
  - name: a
  - name: b
    dependsOn:
      targets: [a]
      probe:
        taskStatusList: [{taskName: t, phase: Running}]
        httpGetList: [{taskName: t, port: 80}]
    patch: {jobSpec: {minAvailable: 1}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: CronJob
metadata: {name: c}
spec:
  schedule: "0 3 * * *"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 60
  jobTemplate: {metadata: {labels: {a: b}}, spec: {tasks: [{name: t}]}}
"""


@pytest.mark.parametrize("text", [FULL, OTHERS])
def test_what_is_written_reads_the_same(text) -> None:
    manifests, _ = read_checked(text)
    assert bare(again(manifests)) == bare(manifests)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda p: p.name)
def test_the_examples_are_right_and_come_back_the_same(file) -> None:
    manifests, warnings = read_checked(file.read_text(), file.name)
    assert warnings == []
    assert bare(again(manifests)) == bare(manifests)


def test_records_pass_through_msgpack() -> None:
    """A row of the head's store is decoded to the record that was encoded."""
    for text in (FULL, OTHERS):
        for manifest in read_checked(text)[0]:
            spec = manifest.spec
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=type(spec)) == spec


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        (2, 2.0),
        ("500m", 0.5),
        ("1Ki", 1024.0),
        ("1.5Gi", 1.5 * 2**30),
        ("2k", 2000.0),
        ("1e3", 1000.0),
        ("1E", 1e18),
        ("1E3", 1000.0),
        ("5e-1", 0.5),
        (".5", 0.5),
        ("100n", 1e-7),
        ("-1", -1.0),
        ("0", 0.0),
        (0.1, 0.1),
    ],
)
def test_amounts(written, amount) -> None:
    assert quantity(written) == amount


@pytest.mark.parametrize("written", ["", "x", "1x", "1 Gi", "Gi", "nan", "inf", "1e999", True, []])
def test_what_is_no_amount(written) -> None:
    with pytest.raises(ValueError, match="amount"):
        quantity(written)


SCALARS = hs.none() | hs.booleans() | hs.integers() | hs.floats() | hs.text(max_size=8)
WORDS = """
spec tasks name replicas minAvailable policies event action template containers command env
resources limits cpu plugins mpi dependsOn queue metadata kind apiVersion schedule flows members
selector weight capability partitionPolicy networkTopology annotations
"""
KEYS = hs.sampled_from(WORDS.split())
TREES = hs.recursive(
    SCALARS,
    lambda inner: hs.lists(inner, max_size=4) | hs.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=examples(150))
@given(
    kind=hs.sampled_from(["Job", "Queue", "PodGroup", "JobFlow", "CronJob", "HyperNode", "Pod"]),
    spec=hs.dictionaries(KEYS, TREES, max_size=8),
)
def test_whatever_is_written_is_read_or_refused_but_never_breaks(kind, spec) -> None:
    text = msgspec.json.encode({"kind": kind, "metadata": {"name": "x"}, "spec": spec})
    manifests, report = read_manifests(text)
    if report.ok and manifests[0].spec is not None:
        assert bare(again(manifests)) == bare(manifests)


ODD = [
    ".inf",
    "-.inf",
    ".nan",
    "1e400",
    "1.5",
    "-1",
    "0",
    "0b_",
    "0x_",
    "_",
    "1__0",
    "1_0",
    "true",
    "null",
    '""',
    '"\\0"',
    "[]",
    "{}",
    "[[]]",
    "{a:1}",
    "2026-01-01",
    "1:30",
    "=",
    "<<",
    "!!int(x)",
    "9223372036854775808",
    "18446744073709551616",
    "-9223372036854775809",
    "2147483648",
    '"1e999"',
    "0777",
    "٣",
    "99999999999999999999h",
]
ODD += ["1" + "0" * 30, "1" + "0" * 5000, "0x" + "f" * 5000, "!!bool x", "!!float x", "!!set {a}"]


def leaves(node, path=()):
    """Yield the paths to all values below, and to the lists and mappings that hold them."""
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield (*path, key)
            yield from leaves(value, (*path, key))


@pytest.mark.parametrize("document", [FULL, *OTHERS.split("---\n")])
def test_an_odd_value_in_any_field_is_read_or_refused_but_never_breaks(document) -> None:
    whole = yaml.safe_load(document)
    for number, path in enumerate(leaves(whole)):
        for odd in [ODD[(number * 5 + i) % len(ODD)] for i in range(5)]:
            written = json.loads(json.dumps(whole))
            inner = written
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = "@@"
            text = json.dumps(written).replace('"@@"', odd)
            _, report = check_manifests(text, old=document)
            assert all(f.reason and f.code for f in report.errors)
            with contextlib.suppress(ManifestError):
                manifest_objects(text)


def needs(*amounts: str) -> str:
    containers = ", ".join(
        f"{{command: [x], resources: {{limits: {{{amount}}}}}}}" for amount in amounts
    )
    return f"{HEAD}spec: {{tasks: [{{template: {{spec: {{containers: [{containers}]}}}}}}]}}"


@pytest.mark.parametrize(
    "amounts",
    [
        ["nvidia.com/gpu: 1.5"],
        ["nvidia.com/gpu: 0.5", "nvidia.com/gpu: 0.7"],
        ["nvidia.com/gpu: 1n"],
        ["cpu: 1n"],
        ["cpu: 1E"],
        ["memory: 1E"],
    ],
)
def test_amounts_that_no_member_can_hold_are_refused(amounts) -> None:
    with pytest.raises(ManifestError) as refusal:
        read_checked(needs(*amounts))
    assert [f.code for f in refusal.value.findings] == ["amount_not_held"]


def test_shares_that_fit_on_one_device_are_taken() -> None:
    assert job(needs("gpu: 0.5", "gpu: 500m")).groups[0].template.needs == {"GPU": 1.0}


@pytest.mark.parametrize(
    "task",
    [
        "{name: t}",
        "{name: t, template: {spec: {containers: []}}}",
        "{name: t, template: {spec: {containers: [{image: busybox}]}}}",
        "{name: t, template: {spec: {containers: [{comand: [x]}]}}}",
        "{name: t, template: {spec: {initContainers: [{}], containers: [{command: [x]}]}}}",
    ],
)
@pytest.mark.parametrize("kind", ["Job", "JobTemplate", "CronJob"])
def test_a_job_that_would_run_nothing_is_not_submitted(kind, task) -> None:
    spec = f"spec: {{tasks: [{task}]}}"
    if kind == "CronJob":
        spec = f"spec: {{schedule: '* * * * *', jobTemplate: {{{spec}}}}}"
    text = HEAD.replace("kind: Job", f"kind: {kind}") + spec
    with pytest.raises(ManifestError) as refusal:
        manifest_objects(text)
    (finding,) = refusal.value.findings
    assert (finding.code, finding.line) == ("no_command", 4)


def test_an_unknown_field_is_named_with_its_nearest_neighbour() -> None:
    _, report = read_manifests(needs("cpu: 1").replace("command", "comand"))
    (unknown,) = [f for f in report.warnings if f.code == "unknown_field"]
    assert "no field 'comand' here" in unknown.reason
    assert unknown.reason.endswith("did you mean 'command'?")

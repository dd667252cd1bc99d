"""Pods and PodGroups that are submitted by themselves."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.api.new_manifests import manifest_objects
from phalanx.manifests.findings import ManifestError
from phalanx.model.jobs.spec import JobSpec

POD = """
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: lab, annotations: {%s}}
spec:
  priorityClassName: high
  containers: [{name: c, command: [echo, hello], resources: {requests: {cpu: 2}}}]
"""
GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: group}
spec: {minMember: 2}
"""


def job_of(text: str) -> JobSpec:
    ((made,), _) = manifest_objects(text)
    assert made.kind == "Job"
    return msgspec.msgpack.decode(made.spec, type=JobSpec)


def test_a_pod_becomes_a_job_of_one_member():
    job = job_of(POD % "scheduling.volcano.sh/queue-name: fast")
    assert (job.uid, job.queue, job.priority_class) == ("lab/alone", "fast", "high")
    (group,) = job.groups
    assert (group.replicas, group.min_available, job.min_available) == (1, 1, 1)
    assert group.template.needs == {"CPU": 2.0}
    assert [process.argv for process in group.template.processes] == [("echo", "hello")]
    assert job_of(POD % "").queue == "default"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GROUP, "PodGroup/group kind: unsupported kind"),
        (GROUP + "---" + GROUP.replace("name: group", "name: other"), "PodGroup/other kind: "),
        (POD % "scheduling.k8s.io/group-name: g", "a Pod of a PodGroup does not run alone"),
        (POD % "scheduling.volcano.sh/group-name: g", "a Pod of a PodGroup does not run alone"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: empty}\nspec: {}", "Pod"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: empty}", "Pod"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: s}", "no object of Job, CronJob"),
    ],
    ids=["group", "groups", "of-group", "of-group-2", "empty", "bare", "other"],
)
def test_what_makes_nothing_is_refused(text, said):
    with pytest.raises(ManifestError) as refused:
        manifest_objects(text, "file.yaml")
    assert said in str(refused.value)


def test_a_group_beside_what_is_made_is_passed_over_with_a_word():
    made, said = manifest_objects(POD % "" + "---" + GROUP)
    assert [one.kind for one in made] == ["Job"]
    assert "PodGroup/group: ignored, as clusters do not keep this kind" in said

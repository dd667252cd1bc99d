"""Steps of `phalanx up` in words: before they are taken, and afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import basename

from phalanx.cli.rollout.cluster_file import Cluster
from phalanx.cli.rollout.plan import Do, Plan, Step

_BEFORE = {
    Do.INSTALL: "install {package}",
    Do.SEND_TOKEN: "send the token",
    Do.START_HEAD: "start the head",
    Do.START_STANDBY: "start the standby",
    Do.START_NODE: "start the node",
    Do.RESTART_HEAD: "start the head's process again",
    Do.RESTART_NODE: "start the node's process again, with commands of jobs running,",
    Do.STOP: "end the daemons",
}
_AFTER = {
    Do.INSTALL: "installed {package}",
    Do.SEND_TOKEN: "got the token",
    Do.START_HEAD: "started the head",
    Do.START_STANDBY: "started the standby",
    Do.START_NODE: "started the node",
    Do.RESTART_HEAD: "started the head's process again",
    Do.RESTART_NODE: "started the node's process again",
    Do.STOP: "ended its daemons",
}


def package_name(cluster: Cluster) -> str:
    """Return the name of the software for display: a wheel's file, or the requirement."""
    install = cluster.install
    return basename(install.wheel) + install.extras if install.wheel else install.package


def stage_words(stage: Sequence[Step], cluster: Cluster) -> str:
    """Return the words for the steps of a stage, before they are taken, with the machines. All
    steps of a stage are of one kind.
    """
    text = _BEFORE[stage[0].do].format(package=package_name(cluster))
    return f"{text} on {', '.join(step.machine for step in stage)}"


def done_words(done: Sequence[Do], cluster: Cluster) -> str:
    """Return what was done on a machine."""
    if not done:
        return "nothing to do"
    return ", ".join(_AFTER[one].format(package=package_name(cluster)) for one in done)


def plan_lines(plan: Plan, cluster: Cluster) -> list[str]:
    """Return the steps of a plan, numbered."""
    return [f"{n}. {stage_words(stage, cluster)}" for n, stage in enumerate(plan.stages, 1)]

"""Makes the environment of a member. Its variables describe the member, the other members, and the
resources that the member holds.

A variable that the manifest sets is not replaced, except for variables that choose devices (see
`process_environment`). In commands, arguments and values, `$(NAME)` stands for the value of a
variable, and `$$(NAME)` for the text `$(NAME)`, as in Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from phalanx.head.jobs.frameworks import framework_setup
from phalanx.head.jobs.places import MemberSetup, PlacedGang, PortNeed
from phalanx.head.jobs.torchrun import torchrun_variables
from phalanx.model.accelerators import VISIBLE
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup

_REFERENCE = re.compile(r"\$\$|\$\(([^()$\s]+)\)")
DEVICES = VISIBLE["GPU"]


def ports_needed(job: JobSpec) -> PortNeed:
    """Return two numbers: how many ports the gang needs that are free on all of its nodes, and how
    many ports each member needs on its own node.
    """
    ray = job.plugin("ray") is not None
    return PortNeed(gang=4 if ray else 1, member=1 if job.plugin("tensorflow") is not None else 0)


def member_setup(gang: PlacedGang, group: str, index: int) -> MemberSetup:
    """Return the variables and files for one member and, with some plugins, a command. The result
    does not include the variables and the command of the manifest.
    """
    me = gang.place(group, index)
    own = gang.job.group(group)
    assert own is not None
    env = {
        "PHALANX_JOB": gang.job.name,
        "PHALANX_NAMESPACE": gang.job.namespace,
        "PHALANX_QUEUE": gang.job.queue,
        "PHALANX_TASK": group,
        "PHALANX_TASK_INDEX": str(index),
        "PHALANX_ATTEMPT": str(me.attempt),
        "PHALANX_NODE": me.node,
        "PHALANX_NODE_ADDRESS": me.address,
        "PHALANX_CPUS": f"{own.template.needs.get('CPU', 0.0):g}",
        "PHALANX_GRACE_S": f"{own.template.grace_s:g}",
        "PHALANX_PORTS": ",".join(map(str, me.ports)),
        "VC_TASK_INDEX": str(index),
        DEVICES: ",".join(map(str, me.devices)),
        "CONTAINER_GPUS": str(sum(1 << d for d in me.devices)),
        "CONTAINER_PORTS": _port_labels(own, gang),
    }
    env |= {VISIBLE[kind]: ",".join(map(str, held)) for kind, held in me.others.items()}
    if (array_task := gang.job.element) is not None:
        env |= {
            "PHALANX_ARRAY_JOB": array_task.array.rpartition("/")[2],
            "PHALANX_ARRAY_INDEX": str(array_task.index),
            "PHALANX_ARRAY_COUNT": str(array_task.count),
            "PHALANX_ARRAY_MIN": str(array_task.first),
            "PHALANX_ARRAY_MAX": str(array_task.last),
            "PHALANX_ARRAY_STEP": str(array_task.step),
        }
    if gang.restarts is not None:
        env["PHALANX_RESTART"] = str(gang.restarts)
    if gang.ends is not None:
        env["PHALANX_END_AT"] = str(int(gang.ends))
    if gang.directory:
        env["PHALANX_FILES"] = gang.directory
    if gang.job.plugin("env") is not None:
        env["VK_TASK_INDEX"] = str(index)
    env |= torchrun_variables(gang, group, index)
    files: dict[str, str] = {}
    if gang.job.plugin("svc") is not None:
        variables, lists = gang.hosts
        env |= variables
        files |= lists
    return framework_setup(MemberSetup(env=env, files=files), gang, group, index)


def _port_labels(group: TaskGroup, gang: PlacedGang) -> str:
    """Return the gang's ports in the notation of PAI: `http:8080,8081;rendezvous:29500;`."""
    labels: dict[str, list[int]] = {}
    for process in group.template.processes:
        for port in process.ports:
            labels.setdefault(port.name or "port", []).append(port.number)
    if gang.ports:
        labels["rendezvous"] = list(gang.ports)
    return "".join(f"{name}:{','.join(map(str, ports))};" for name, ports in labels.items())


def process_environment(setup: MemberSetup, process: Process) -> dict[str, str]:
    """Return the variables of one process of the member: the setup's, then the manifest's own.

    A number in a manifest's CUDA_VISIBLE_DEVICES is an index into the devices that the member
    holds, as inside a container. A value with other numbers is replaced, because other devices
    belong to other work. The same applies to the device variables of other makers.
    """
    env = dict(setup.env)
    for name, value in process.env:
        env[name] = expand(value, env)
    chosen = dict(process.env)
    for name in VISIBLE.values():
        if name in chosen and name in setup.env:
            env[name] = _within(chosen[name], setup.env[name])
    return env


def _within(chosen: str, held: str) -> str:
    devices = held.split(",") if held else []
    words = [word.strip() for word in chosen.split(",") if word.strip()]
    if all(word.isdecimal() and int(word) < len(devices) for word in words):
        return ",".join(devices[int(word)] for word in words)
    return held


def process_argv(setup: MemberSetup, process: Process, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command line of one process: the manifest's or, without one in the manifest, a
    plugin's.
    """
    return tuple(expand(word, env) for word in process.argv or setup.command)


def expand(text: str, env: Mapping[str, str]) -> str:
    """Return the text with each `$(NAME)` replaced by the variable's value. Names of unknown
    variables are not replaced.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else env.get(name, match.group(0))

    return _REFERENCE.sub(value, text)

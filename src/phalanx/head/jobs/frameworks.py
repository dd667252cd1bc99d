"""Prepares members for frameworks. This module does the work of Volcano's plugins tensorflow, mpi
and ray, and of Phalanx's own plugin for Slurm's programs.
"""

from __future__ import annotations

import json

import msgspec

from phalanx.head.jobs.places import Key, MemberSetup, PlacedGang
from phalanx.head.jobs.slurm import member_slurm_variables
from phalanx.manifests.plugins import Options, options

TENSORFLOW_ROLES = ("ps", "worker", "chief", "evaluator")
TENSORFLOW_PORT = 2222
RAY_PORTS = {"port": 6379, "dashboardPort": 8265, "clientPort": 10001}


def framework_setup(setup: MemberSetup, gang: PlacedGang, group: str, index: int) -> MemberSetup:
    """Return the setup with the additions of the job's plugins."""
    env, files, command = dict(setup.env), dict(setup.files), setup.command
    for name, arguments in gang.job.plugins:
        if name == "tensorflow" and len(gang.places) > 1:
            env["TF_CONFIG"] = _tensorflow(gang, options(name, arguments), group, index)
        elif name == "mpi":
            chosen = options(name, arguments)
            hosts = gang.addresses(chosen["worker"])
            if group == chosen["master"]:
                env["MPI_HOST"] = ",".join(hosts)
            slots = {host: hosts.count(host) for host in hosts}
            files["hostfile"] = "".join(f"{host} slots={n}\n" for host, n in slots.items())
        elif name == "slurm":
            chosen = options(name, arguments)
            env |= member_slurm_variables(gang, chosen, gang.place(group, index))
            if chosen["script"]:
                files["slurm_script"] = chosen["script"]
        elif name == "ray":
            chosen = options(name, arguments)
            env |= _ray_variables(gang, chosen, group)
            command = _ray_command(gang, chosen, group)
    return msgspec.structs.replace(setup, env=env, files=files, command=command)


def _tensorflow(gang: PlacedGang, chosen: Options, group: str, index: int) -> str:
    def endpoint(key: Key) -> str:
        place = gang.place(*key)
        if chosen["port"]:
            port = int(chosen["port"])
        else:
            port = place.ports[0] if place.ports else TENSORFLOW_PORT + gang.ranks.local[key]
        return f"{place.address}:{port}"

    cluster = {}
    for role in TENSORFLOW_ROLES:
        members = gang.members(chosen[role])
        if members:
            cluster[role] = [endpoint(key) for key in members]
    role = next((role for role in TENSORFLOW_ROLES if chosen[role] == group), group)
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})


def _ray_ports(gang: PlacedGang, chosen: Options) -> dict[str, int]:
    """Return the number of each port of Ray: the number in the manifest, or else a free port of the
    gang, or else Ray's default.
    """
    free = iter(gang.ports[1:])
    return {
        name: int(chosen[name]) if chosen[name] else next(free, usual)
        for name, usual in RAY_PORTS.items()
    }


def _ray_head(gang: PlacedGang, chosen: Options) -> str:
    heads = gang.addresses(chosen["head"])
    return f"{heads[0]}:{_ray_ports(gang, chosen)['port']}" if heads else ""


def _ray_variables(gang: PlacedGang, chosen: Options, group: str) -> dict[str, str]:
    head = _ray_head(gang, chosen)
    return {"RAY_ADDRESS": head} if head and group != chosen["head"] else {}


def _ray_command(gang: PlacedGang, chosen: Options, group: str) -> tuple[str, ...]:
    ports = _ray_ports(gang, chosen)
    if group == chosen["head"]:
        return (
            "ray",
            "start",
            "--head",
            "--block",
            f"--port={ports['port']}",
            f"--dashboard-port={ports['dashboardPort']}",
            f"--ray-client-server-port={ports['clientPort']}",
        )
    if group == chosen["worker"]:
        return ("ray", "start", "--block", f"--address={_ray_head(gang, chosen)}")
    return ()

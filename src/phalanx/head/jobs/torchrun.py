"""The variables that torchrun sets for its processes, which torch.distributed and related programs
read. A member stands for one process of torchrun, and a node of the gang for one of torchrun's
agents.
"""

from __future__ import annotations

from phalanx.head.jobs.places import PlacedGang
from phalanx.manifests.plugins import options
from phalanx.model.jobs.spec import UNLIMITED
from phalanx.model.options import LARGEST_NUMBER
from phalanx.protocol.bundle_messages import ERROR_FILE

ONE_ROLE = "default"
"""The name that torchrun gives to the role if all processes are alike."""


def torchrun_variables(gang: PlacedGang, group: str, index: int) -> dict[str, str]:
    """Return the variables of a member. A member without a rank gets only the address at which the
    ranked members meet.
    """
    ranks, me = gang.rendezvous, (group, index)
    env = {"MASTER_PORT": port} if (port := _port(gang)) else {}
    first = next((key for key in ranks.order if key in gang.places), None)
    if first is not None:
        env["MASTER_ADDR"] = gang.place(*first).address
        env["WORLD_SIZE"] = str(len(ranks.order))
    if me in ranks.local:
        env |= _own(gang, group, index)
    return env


def _port(gang: PlacedGang) -> str:
    arguments = gang.job.plugin("pytorch")
    named = "" if arguments is None else options("pytorch", arguments)["port"]
    return named or (str(gang.ports[0]) if gang.ports else "")


def _own(gang: PlacedGang, group: str, index: int) -> dict[str, str]:
    ranks, me = gang.rendezvous, (group, index)
    node = gang.place(*me).node
    group_rank = str(ranks.number[node])
    most = gang.job.max_retry
    env = {
        "RANK": str(ranks.rank[me]),
        "LOCAL_RANK": str(ranks.local[me]),
        "LOCAL_WORLD_SIZE": str(ranks.on_node[node]),
        "NODE_RANK": group_rank,
        "GROUP_RANK": group_rank,
        "GROUP_WORLD_SIZE": str(len(ranks.on_node)),
        "ROLE_NAME": group if len(ranks.of_group) > 1 else ONE_ROLE,
        "ROLE_RANK": str(ranks.in_group[me]),
        "ROLE_WORLD_SIZE": str(ranks.of_group[group]),
        "TORCHELASTIC_RUN_ID": f"{gang.job.namespace}.{gang.job.name}",
        "TORCHELASTIC_RESTART_COUNT": str(gang.restarts or 0),
        "TORCHELASTIC_MAX_RESTARTS": str(LARGEST_NUMBER if most == UNLIMITED else most),
        # Rank 0 runs the store through which the members meet, instead of torchrun's agent.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }
    if gang.directory:
        env["TORCHELASTIC_ERROR_FILE"] = ERROR_FILE
    return env

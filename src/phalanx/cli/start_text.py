"""The text at the end of `phalanx start --head`: how to use the cluster, and who may use it."""

from __future__ import annotations

import ipaddress
from importlib.util import find_spec


def what_next(where: str, token: str, is_insecure: bool) -> str:
    """Return text with the next useful commands, and the place of the token. `where`: the head's
    address.
    """
    host = where.rpartition(":")[0].strip("[]")
    is_local = ipaddress.ip_address(host).is_loopback
    join = f"phalanx start --address {where}"
    if not is_local:
        join += " --host THAT_MACHINES_ADDRESS" + (" --insecure" if is_insecure else "")
    lines = [
        "",
        "From Python on this machine:  phalanx.init()",
        f"Another node:                 {join}",
        "The cluster:                  phalanx status",
        *(["Its web page:                 phalanx dashboard"] if find_spec("uvicorn") else []),
        "The end:                      phalanx stop",
        "",
    ]
    if is_local:
        lines.append(
            "It listens only on this machine. To let other machines join, start it with --host and "
            "this machine's address."
        )
    else:
        lines.append(f"Other machines need the token first: copy {token} there, mode 0600.")
    lines.append(f"The token is in {token}. Anyone who has it can run anything here.")
    return "\n".join(lines)


def shared_text(directory: str, group: str, launch_keys: str) -> str:
    """Return text about a shared head: how other accounts reach it, and as which users their jobs
    run.

    `group`: the accounts that may connect; empty for all. `launch_keys`: the directory of the
    head's keys for phalanx-launch; empty if jobs run as the user of this node.
    """
    from phalanx.runtime.daemons.daemon_files import OF_SOCKET

    sharers = f"The accounts of the group {group}" if group else "All accounts of this machine"
    reach = (
        f"{sharers} reach the head at PHALANX_ADDRESS={OF_SOCKET}{directory}; they submit to the "
        "queues whose lists name them: phalanx queue update default --submit USER,@GROUP\n"
    )
    if launch_keys:
        from phalanx.runtime.head.signing import public_path

        return reach + (
            "Jobs run as their submitters, on nodes whose phalanx-launch has this head's key: "
            f"{public_path(launch_keys)}"
        )
    return reach + (
        "All jobs run as the user of this node, so jobs can read and end each other: rights "
        "prevent mistakes here, not attacks (docs/explanation/security.md)."
    )

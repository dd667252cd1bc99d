#!/usr/bin/env bash
# Asked: torchrun with --nnodes=1:2: one agent runs alone. What happens when a second agent comes?
# Good guess: The running worker is stopped, and both agents start a worker in a world of two. That
#   is what elastic launch is for, and its documentation says so.
# Truth: The running worker is stopped, no worker starts again, and after 60 s both agents end with
#   DistStoreError. In the second round the first agent does not publish the address of its store
#   again, and the new agent waits for it. With TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 both start.
# Seen with: torch==2.13.0, Python 3.11, Linux, 2026-11-28.
# Source: torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, next_rendezvous.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0
cd "$work"
cat > program.py <<'PROGRAM'
import os
import re
import socket
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

SCRIPT = "echo $WORLD_SIZE >> {worlds}; [ $WORLD_SIZE = 2 ] || exec sleep 120"


def worlds(name, **env):
    """Return the sizes of the worlds that workers saw, and the errors of both agents."""
    seen = Path(name)
    seen.touch()
    Path("script").write_text(SCRIPT.format(worlds=name))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        "venv/bin/torchrun", "--no-python", "--nnodes=1:2", "--nproc-per-node=1",
        "--monitor-interval=1", "--rdzv-backend=c10d", f"--rdzv-id={name}",
        f"--rdzv-endpoint=127.0.0.1:{port}", "--local-addr=127.0.0.1",
        "--rdzv-conf=last_call_timeout=2", "sh", "script",
    ]
    def start():
        return subprocess.Popen(
            command, env={**os.environ, **env}, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
    agents = [start()]
    while not seen.read_text() and agents[0].poll() is None:
        time.sleep(0.3)
    agents.append(start())
    texts = [agent.communicate(timeout=200)[1] for agent in agents]
    errors = {error for text in texts for error in re.findall(r"DistStoreError", text)}
    return sorted(seen.read_text().split()), sorted(errors)


if __name__ == "__main__":
    print("torch", version("torch"))
    usual = worlds("usual")
    print("a late agent:", *usual)
    apart = worlds("apart", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    print("a late agent, and no shared store:", *apart)
    assert usual == (["1"], ["DistStoreError"])
    assert apart == (["1", "2", "2"], [])
PROGRAM
"$work/venv/bin/python" program.py

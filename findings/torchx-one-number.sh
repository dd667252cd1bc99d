#!/usr/bin/env bash
# Asked: TorchX: `torchx run dist.ddp -j 2` asks for what?
# Good guess: Two nodes (replicas): the number before the `x` of `-j 2x8`, with its second part
#   left out.
# Truth: One node with two processes. The single number is the second part of NODESxPROCESSES.
# Seen with: torchx==0.7.0, Python 3.11, Linux, 2026-11-28.
# Source: torchx/components/dist.py, parse_nnodes.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check torchx==0.7.0
cd "$work"
cat > program.py <<'PROGRAM'
import subprocess
from importlib.metadata import version
from pathlib import Path


def plan(size):
    command = ["venv/bin/torchx", "run", "--dryrun", "-s", "local_cwd", "dist.ddp"]
    command += ["-j", size, "--script", "train.py"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = shown.replace('"', " ").replace("'", " ").split()
    return words[words.index("--nnodes") + 1], words[words.index("--nproc_per_node") + 1]


if __name__ == "__main__":
    print("torchx", version("torchx"))
    Path("train.py").touch()
    seen = {size: plan(size) for size in ("2", "2x1", "1x2")}
    for size, (nodes, processes) in seen.items():
        print(f"-j {size}: --nnodes {nodes} --nproc_per_node {processes}")
    assert seen == {"2": ("1", "2"), "2x1": ("2", "1"), "1x2": ("1", "2")}
PROGRAM
"$work/venv/bin/python" program.py

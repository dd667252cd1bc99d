"""The lab's cloud: starts and ends hosts on demand. The administrator's sshd runs this program when
`phalanx provision` connects with its key.

    python tools/lab/cloud.py DIRECTORY         up or down in SSH_ORIGINAL_COMMAND; JSON on stdin
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.lab.network import Network


def main() -> None:
    network = Network(Path(sys.argv[1]))
    wish = os.environ["SSH_ORIGINAL_COMMAND"]
    names = json.load(sys.stdin)["names"]
    here = network.directory / "admin"
    program = [str(Path(sys.executable).with_name("phalanx")), wish, "elastic.toml", *names]
    if wish == "up":
        for name in names:
            if not (network.directory / "hosts" / name / "pid").exists():
                network.boot(name)
    done = subprocess.run(program, cwd=here, stdout=sys.stderr, check=False)
    if wish == "down":
        for name in names:
            if (network.directory / "hosts" / name / "pid").exists():
                network.cut_off(name)
    if done.returncode == 0:
        print("\n".join(names))
    sys.exit(done.returncode)


main()

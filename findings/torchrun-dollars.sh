#!/usr/bin/env bash
# Asked: torchrun --no-python sh -c 'echo $$': what does the shell print?
# Good guess: The number of its process: arguments after the program are passed on unchanged.
# Truth: "$". torchrun puts the local rank into arguments with ${local_rank}, by string.Template,
#   which makes "$" of "$$" in every argument. A `kill -9 $$` of a test kills nobody.
# Seen with: torch==2.13.0, Python 3.11, Linux, 2026-11-28.
# Source: torch/distributed/elastic/utils/api.py, macros.substitute.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0
cd "$work"
cat > program.py <<'PROGRAM'
import subprocess
from importlib.metadata import version

WORDS = ["$$", "$$$$", "$HOME", "a$$b"]

if __name__ == "__main__":
    print("torch", version("torch"))
    command = ["venv/bin/torchrun", "--standalone", "--no-python", "--nproc-per-node=1"]
    done = subprocess.run(
        [*command, "printf", r"%s\n", *WORDS], capture_output=True, text=True, check=True
    )
    seen = done.stdout.split()
    for given, found in zip(WORDS, seen, strict=True):
        print(f"{given} arrives as {found}")
    assert seen == ["$", "$$", "$HOME", "a$b"]
PROGRAM
"$work/venv/bin/python" program.py

#!/usr/bin/env bash
# Asked: Snakemake: which limits, in minutes, do `runtime="90s"` and `runtime="1h30m"` give?
# Good guess: 2 (rounded up, so that the job has at least its time) and 90.
# Truth: 1: the fraction is cut off, so the limit is a third shorter than what was asked for.
#   "1h30m" is refused; "1.5h" gives 90.
# Seen with: snakemake==9.27.1, Python 3.11, Linux, 2026-11-28.
# Source: snakemake/resources.py, the conversion of times.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check snakemake==9.27.1
cd "$work"
cat > program.py <<'PROGRAM'
import subprocess
from importlib.metadata import version
from pathlib import Path

RULE = """
rule one:
    output: "out.txt"
    resources: {resources}
    shell: "echo {{resources.%s}} > {{output}}"
"""


def value(resources, shown):
    Path("out.txt").unlink(missing_ok=True)
    Path("Snakefile").write_text((RULE % shown).format(resources=resources))
    done = subprocess.run(
        ["venv/bin/snakemake", "--cores", "1", "--quiet", "--", "out.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return Path("out.txt").read_text().strip() if done.returncode == 0 else "refused"


if __name__ == "__main__":
    print("snakemake", version("snakemake"))
    asked = ("90s", "1.5h", "1h30m")
    seen = {time: value(f'runtime="{time}"', "runtime") for time in asked}
    print("runtime in minutes:", seen)
    assert seen == {"90s": "1", "1.5h": "90", "1h30m": "refused"}
PROGRAM
"$work/venv/bin/python" program.py

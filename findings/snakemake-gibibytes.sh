#!/usr/bin/env bash
# Asked: Snakemake: a rule has `resources: mem="2GiB"`. What are `mem_mb` and `mem_mib`?
# Good guess: 2148 and 2048.
# Truth: 2148 and 2049: `mem_mib` is computed from the rounded-up `mem_mb` and rounded up again.
#   Every whole number of GiB gains a MiB, and an executor that passes it on asks for just more
#   than what fits, say, on a node of exactly that size.
# Seen with: snakemake==9.27.1, Python 3.11, Linux, 2026-11-28.
# Source: snakemake/resources.py, the conversion of sizes.
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
    seen = {unit: value('mem="2GiB"', unit) for unit in ("mem_mb", "mem_mib")}
    print('mem="2GiB":', seen)
    assert seen == {"mem_mb": "2148", "mem_mib": "2049"}
PROGRAM
"$work/venv/bin/python" program.py

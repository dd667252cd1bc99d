#!/usr/bin/env bash
# Asked: Which `--mem` does `SLURMCluster(memory="16GB")` ask Slurm for?
# Good guess: `--mem=16G`: the same digits.
# Truth: `--mem=15G`: GB is read as 10^9 bytes, and the result is rounded up to Slurm's binary
#   unit. A small value is rounded up by much: 2GB becomes `--mem=2G`, 7 % more than the worker
#   uses. `16GiB` becomes `--mem=16G`.
# Seen with: dask-jobqueue==0.9.0, dask==2026.8.0, distributed==2026.8.0, Python 3.11, Linux,
#   2026-11-28.
# Source: dask_jobqueue/slurm.py, slurm_format_bytes_ceil.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check dask-jobqueue==0.9.0 dask==2026.8.0 distributed==2026.8.0
cd "$work"
cat > program.py <<'PROGRAM'
import re
from importlib.metadata import version

from dask_jobqueue import SLURMCluster


def asked(memory):
    with SLURMCluster(cores=1, memory=memory, processes=1) as cluster:
        script = cluster.job_script()
    return re.search(r"--mem=(\S+)", script)[1], re.search(r"--memory-limit (\S+)", script)[1]


if __name__ == "__main__":
    print("dask-jobqueue", version("dask-jobqueue"))
    seen = {memory: asked(memory) for memory in ("16GB", "16GiB", "2GB")}
    for memory, (slurm, worker) in seen.items():
        print(f"memory={memory}: Slurm is asked for {slurm}, the worker limits itself to {worker}")
    assert seen == {
        "16GB": ("15G", "14.90GiB"),
        "16GiB": ("16G", "16.00GiB"),
        "2GB": ("2G", "1.86GiB"),
    }
PROGRAM
"$work/venv/bin/python" program.py

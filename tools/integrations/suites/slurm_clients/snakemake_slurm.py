"""Snakemake's executor for Slurm: a workflow of three jobs, and a failure."""

import os
import subprocess
import sys
from pathlib import Path

SNAKEMAKE = os.path.join(os.path.dirname(sys.executable), "snakemake")
WORKFLOW = """
rule both:
    input: "a.txt", "b.txt"
    output: "both.txt"
    resources: mem_mb=300, runtime=10
    shell: "cat {input} > {output}"

rule one:
    output: "{name}.txt"
    threads: 2
    resources: mem_mb=300, runtime=10
    shell: "echo {wildcards.name} {threads} > {output}"
"""
FAILING = """
rule bad:
    output: "bad.txt"
    resources: mem_mb=300, runtime=10
    shell: "exit 3"
"""
OPTIONS = ("--executor", "slurm", "--jobs", "4", "--default-resources", "slurm_partition=default",
           "--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "30")  # fmt: skip


def snakemake(workflow):
    Path("Snakefile").write_text(workflow)
    return subprocess.run(
        [SNAKEMAKE, *OPTIONS], capture_output=True, text=True, check=False, timeout=400
    )


def test_jobs_run_in_their_order():
    done = snakemake(WORKFLOW)
    assert done.returncode == 0, done.stdout + done.stderr
    assert Path("both.txt").read_text() == "a 2\nb 2\n"


def test_a_failure_is_told():
    done = snakemake(FAILING)
    assert done.returncode == 1
    assert "failed" in done.stderr and not Path("bad.txt").exists()

"""Reads Alibaba's openb traces (clusterdata, cluster-trace-gpu-v2023): nodes and pods as CSV."""

from __future__ import annotations

from pathlib import Path

from phalanx_research.traces.fields import rows_of, unique
from phalanx_research.traces.records import TraceJob, TraceNode

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
POD_MORE = ("gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time")
"""The columns that the files with more multi-GPU pods do not have."""
LARGEST_POD = 8


def read_nodes(path: Path) -> list[TraceNode]:
    """Return nodes in the order of the file. Raises TraceError."""
    nodes = []
    for row in unique(rows_of(path, NODE_COLUMNS), "sn"):
        gpus = row.count("gpu")
        model = row.text("model", "")
        if gpus and not model:
            raise row.error(f"gpu is {gpus}, but model is empty: a device count without a device")
        nodes.append(
            TraceNode(
                name=row.text("sn"),
                cpu_milli=row.count("cpu_milli"),
                memory_mib=row.count("memory_mib"),
                gpus=gpus,
                model=model,
            )
        )
    return nodes


def read_jobs(path: Path) -> list[TraceJob]:
    """Return a job for each pod, in the order of the file. The queue is the quality of service.
    Raises TraceError.
    """
    jobs = []
    for row in unique(rows_of(path, POD_COLUMNS, POD_MORE), "name"):
        gpus, milli = row.gpus("num_gpu", "gpu_milli", LARGEST_POD)
        row.in_order("creation_time", "scheduled_time", "deletion_time")
        started = row.optional_number("scheduled_time")
        ended = row.optional_number("deletion_time")
        ran = started is not None and ended is not None
        jobs.append(
            TraceJob(
                name=row.text("name"),
                cpu_milli=row.count("cpu_milli"),
                memory_mib=row.count("memory_mib"),
                num_gpu=gpus,
                gpu_milli=milli,
                models=row.names("gpu_spec"),
                submitted_s=row.optional_number("creation_time"),
                started_s=started,
                ended_s=ended,
                duration_s=ended - started if ran and ended and started is not None else None,
                queue=row.text("qos", "default"),
                outcome=row.text("pod_phase", ""),
            )
        )
    return jobs

"""The JSON of `sacct --json` for jobs and steps, which differs from the JSON of `squeue --json`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.adapters.slurm.marks import CLUSTER

_FORMAT = "%Y-%m-%dT%H:%M:%S"
_TYPES = {"gres/gpu": ("gres", "gpu")}


def job_entry(row: Mapping[str, str], steps: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the entry of a job. `row`: its fields in sacct's form. `steps`: rows of its steps."""
    array, _, index = row["id"].partition("_")
    return {
        "account": row.get("account", ""),
        "allocation_nodes": int(row["nodes"] or 0),
        "array": {
            "job_id": _whole(array) if index else 0,
            "task_id": _number(float(index) if index.isdecimal() else None),
            "task": "" if index.isdecimal() else index,
        },
        "association": {
            "account": row.get("account", ""), "cluster": CLUSTER,
            "partition": row["partition"], "user": row["user"],
        },
        "cluster": CLUSTER,
        "comment": {"administrator": "", "job": row.get("comment", ""), "system": ""},
        "constraints": row.get("features", ""),
        "derived_exit_code": _exit_code(row["code"]),
        "exit_code": _exit_code(row["code"]),
        "group": row.get("group", ""),
        "job_id": _whole(array),
        "name": row["name"],
        "nodes": row["nodelist"] or "None assigned",
        "partition": row["partition"],
        "priority": _number(float(row.get("priority") or 0)),
        "qos": row.get("qos", ""),
        "required": {"CPUs": _whole(row["cpus"]), "memory_per_node": _number(_memory(row))},
        "reservation": {"id": 0, "name": row.get("reservation", "")},
        "restart_cnt": int(row.get("restarts") or 0),
        "state": {"current": [row["state"].partition(" ")[0]], "reason": row.get("reason", "None")},
        "steps": [step_entry(one) for one in steps],
        "stdin_expanded": row.get("stdin", ""),
        "stdout_expanded": row.get("stdout", ""),
        "stderr_expanded": row.get("stderr", ""),
        "submit_line": row.get("submit_line", ""),
        "time": _times(row) | {"limit": _limit(row.get("timelimit_raw", ""))},
        "tres": {"allocated": _tres(row.get("tres", "")), "requested": _tres(row.get("tres", ""))},
        "used_gres": "",
        "user": row["user"],
        "wckey": {"wckey": row.get("wckey", ""), "flags": []},
        "working_directory": row.get("directory", ""),
    }  # fmt: skip


def step_entry(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the entry of a step, or of a job's batch script."""
    return {
        "step": {"id": row["id"], "name": row["name"]},
        "state": [row["state"]],
        "exit_code": _exit_code(row["code"]),
        "nodes": {"count": int(row["nodes"] or 0), "range": row["nodelist"],
                  "list": [one for one in row["nodelist"].split(",") if one]},
        "tasks": {"count": int(row["tasks"] or 0)},
        "time": _times(row),
        "tres": {"allocated": _tres(row.get("tres", ""))},
    }  # fmt: skip


def _times(row: Mapping[str, str]) -> dict[str, Any]:
    return {
        "elapsed": int(row["seconds"]),
        "eligible": _moment(row.get("eligible", "")),
        "start": _moment(row["start"]),
        "end": _moment(row["end"]),
        "submission": _moment(row["submit"]),
        "suspended": 0,
        "total": _seconds(row.get("totalcpu", "")),
    }


def _moment(text: str) -> int:
    """Return a moment in seconds since the epoch; 0 for an unknown moment."""
    try:
        return int(time.mktime(time.strptime(text, _FORMAT)))
    except (ValueError, OverflowError):
        return 0


def _seconds(text: str) -> dict[str, int]:
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":") if part.isdecimal()]
    seconds = sum(part * 60**power for power, part in enumerate(reversed(parts)))
    return {"seconds": seconds + 86_400 * int(days or 0), "microseconds": 0}


def _exit_code(text: str) -> dict[str, Any]:
    code, _, signal = text.partition(":")
    status = "SIGNALED" if int(signal) else "ERROR" if int(code) else "SUCCESS"
    return {
        "status": [status],
        "return_code": _number(float(code)),
        "signal": {"id": _number(float(signal) if int(signal) else None), "name": ""},
    }


def _limit(minutes: str) -> dict[str, Any]:
    found = _number(float(minutes) if minutes.isdecimal() else None)
    return found | {"infinite": minutes == "UNLIMITED"}


def _tres(text: str) -> list[dict[str, Any]]:
    found = []
    for part in filter(None, text.split(",")):
        name, _, amount = part.partition("=")
        kind, own = _TYPES.get(name, (name, ""))
        count = float(amount.rstrip("M") or 0)
        found.append({"type": kind, "name": own, "id": 0, "count": int(count)})
    return found


def _memory(row: Mapping[str, str]) -> float | None:
    size = row.get("reqmem", "").rstrip("M")
    return float(size) if size.isdecimal() else None


def _whole(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _number(value: float | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": int(value or 0)}

"""Slurm's names for states of jobs and attempts, and its form of elapsed times."""

from __future__ import annotations

import re

from phalanx.adapters.slurm.options import parts
from phalanx.model import attempts as at
from phalanx.model.jobs import states as st

_OOM = re.compile(rf"(?:^|: ){at.OUT_OF_MEMORY}\b")
"""Matches the reason of a member, and that of a job, which names the member first."""
OUT_OF_MEMORY = "OutOfMemory"
"""The state of a failed job that used too much memory. For Phalanx it has failed."""
JOB = {
    st.PENDING: ("PENDING", "PD"),
    st.PREPARING: ("CONFIGURING", "CF"),
    st.RUNNING: ("RUNNING", "R"),
    st.RESTARTING: ("REQUEUED", "RQ"),
    st.ABORTING: ("COMPLETING", "CG"),
    st.ABORTED: ("SUSPENDED", "S"),
    st.COMPLETING: ("COMPLETING", "CG"),
    st.COMPLETED: ("COMPLETED", "CD"),
    st.TERMINATING: ("COMPLETING", "CG"),
    st.TERMINATED: ("CANCELLED", "CA"),
    st.TIMED_OUT: ("TIMEOUT", "TO"),
    st.DEADLINE: ("DEADLINE", "DL"),
    st.DEPENDENCY_FAILED: ("CANCELLED", "CA"),  # as Slurm ends it with kill_invalid_depend
    st.FAILED: ("FAILED", "F"),
    OUT_OF_MEMORY: ("OUT_OF_MEMORY", "OOM"),
}
"""Slurm's long and short names of Phalanx's states, and of the state that only Slurm has."""
OUT_OF_MEMORY_CODE = "0:125"
"""Slurm's CODE:SIGNAL of a job that used too much memory."""

_NEVER = (
    "BOOT_FAIL", "BF", "LAUNCH_FAILED", "NODE_FAIL", "NF", "POWER_UP_NODE", "PREEMPTED", "PR",
    "RECONFIG_FAIL", "RESIZING", "RS", "RESV_DEL_HOLD", "RD", "REQUEUE_FED", "RF", "REQUEUE_HOLD",
    "RH", "REVOKED", "RV", "SIGNALING", "SI", "SPECIAL_EXIT", "SE", "STAGE_OUT", "SO", "STOPPED",
    "ST", "UPDATE_DB",
)  # fmt: skip
"""The states of Slurm that no job of Phalanx has. A listing of jobs in such a state is empty."""
_OF_ATTEMPTS = {
    at.PREEMPTED: "PREEMPTED",
    at.NODE_LOST: "NODE_FAIL",
    at.RESTARTED: "REQUEUED",
}


def state_of(state: str, reason: str) -> str:
    """Return the state of a job or an attempt as Slurm tells states apart. `reason`: why it has
    ended.
    """
    is_oom = state == st.FAILED and _OOM.search(reason) is not None
    return OUT_OF_MEMORY if is_oom else state


def attempt_state(state: str) -> str:
    """Return Slurm's name for the state in which an attempt or a step has ended."""
    return _OF_ATTEMPTS.get(state) or JOB.get(state, (state.upper(), ""))[0]


def code_of(code: int, signal: int) -> str:
    """Return Slurm's CODE:SIGNAL. `code`: the exit code as a shell reports it. `signal`: the signal
    that ended the process; 0 for none.
    """
    return f"0:{signal}" if signal else f"{code}:0"


def states_named(given: str) -> set[str]:
    """Return Phalanx's states for a list of Slurm's names, long or short, in any case.

    Raises ValueError for an unknown name.
    """
    if given.lower() == "all":
        return set(JOB)
    found = set()
    for word in parts(given.upper()):
        ours = {state for state, names in JOB.items() if word in names}
        if not ours and word not in _NEVER:
            there = ", ".join(dict.fromkeys(names[0] for names in JOB.values()))
            raise ValueError(f"{word} is no state of jobs here; the states are {there}")
        found |= ours
    return found


def elapsed(seconds: float | None, unknown: str = "UNLIMITED") -> str:
    """Return [D-]HH:MM:SS, without hours below one hour, in squeue's form."""
    if seconds is None:
        return unknown
    days, left = divmod(int(seconds), 86_400)
    hours, minutes, rest = left // 3_600, left // 60 % 60, left % 60
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{rest:02d}"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

"""The field `after` of a job: its dependencies, in the form of sbatch(1)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from phalanx.manifests.findings import Fault
from phalanx.manifests.names import object_fault, shown
from phalanx.model.jobs.dependencies import (
    AFTER,
    AFTER_CORR,
    KINDS,
    MAX_DEPENDENCIES,
    SINGLETON,
    Dependencies,
    Dependency,
)
from phalanx.model.jobs.timing import LONGEST_S
from phalanx.model.nearest import nearest

FORM = "KIND:JOB[:JOB...], as afterok:prep:train, after:server+10 (minutes) or singleton:train"
_DELAY = re.compile(r"(.*)\+([0-9]{1,9})", re.ASCII | re.DOTALL)


def read_dependencies(written: str, namespace: str) -> Dependencies:
    """Return the dependencies in a text such as `afterok:prep,afterany:other/clean`.

    With `,` between the dependencies, all of them must be met; with `?`, one is enough. Jobs
    without a namespace are in `namespace`. Raises ValueError that says what is allowed.
    """
    text = written.strip()
    if "," in text and "?" in text:
        raise ValueError(
            f"write ',' where all must be met, '?' where one is enough; not both: {_cut(written)}"
        )
    needs = [
        need
        for term in re.split("[,?]", text)
        for need in _read_term(term.strip(), written, namespace)
    ]
    made = Dependencies(needs=tuple(dict.fromkeys(needs)), is_any="?" in text)
    for fault in _faults(made):
        raise ValueError(fault)
    return made


def _read_term(term: str, written: str, namespace: str) -> list[Dependency]:
    kind, *jobs = term.split(":")
    kind = kind.strip().lower()
    if kind not in KINDS:
        near = nearest(kind, KINDS)
        raise ValueError(
            f"{_cut(term)} of {_cut(written)} is not a dependency{near}; write {FORM}; the kinds: "
            f"{', '.join(KINDS)}"
        )
    if kind == SINGLETON and len(jobs) != 1:
        raise ValueError(
            "a singleton names one word, as singleton:train: among the jobs with that word, or "
            "that name, only one runs at a time"
        )
    if not jobs or not all(job.strip() for job in jobs):
        raise ValueError(f"{_cut(term)} names no job; write {FORM}")
    return [_read_job(kind, job.strip(), namespace) for job in jobs]


def _read_job(kind: str, job: str, namespace: str) -> Dependency:
    found = _DELAY.fullmatch(job)
    if found is not None and kind != AFTER:
        raise ValueError(
            f"only {AFTER} takes minutes, as {AFTER}:JOB+10; remove them from {kind}:{_cut(job)}"
        )
    delay_s = 0.0 if found is None else 60.0 * int(found[2])
    name = job if found is None else found[1]
    return Dependency(
        kind=kind, job=name if "/" in name else f"{namespace}/{name}", delay_s=delay_s
    )


def _faults(after: Dependencies) -> list[str]:
    if not after.needs:
        return ["it names no job"]
    if len(after.needs) > MAX_DEPENDENCIES:
        return [f"it names {len(after.needs):,} jobs; at most {MAX_DEPENDENCIES:,} are allowed"]
    faults = []
    for need in after.needs:
        namespace, _, name = need.job.partition("/")
        if need.kind not in KINDS:
            faults.append(f"{shown(need.kind)} is not one of {', '.join(KINDS)}")
        elif (fault := object_fault("Job", name, namespace)) is not None:
            faults.append(f"{need.kind}: {fault}")
        elif need.kind == AFTER_CORR and after.is_any:
            faults.append(f"{need.kind} is about each array task; '?' is about the whole array")
        elif not 0 <= need.delay_s <= LONGEST_S:
            faults.append(f"{need.kind}: {need.delay_s:g} s is more than {LONGEST_S:g} s")
    return faults


def dependency_faults(after: Dependencies | None, uid: str) -> list[Fault]:
    """Return the faults of a new job's dependencies.

    Manifests are checked when they are read; this check is for the specs that programs submit.
    """
    if after is None:
        return []
    found = _faults(after)
    if not found and uid in others(after):
        found.append(
            f"{written_dependencies(after)}: a job cannot wait for itself; name another job"
        )
    return [Fault(("spec", "after"), "after_invalid", f"after: {fault}") for fault in found]


def others(after: Dependencies | None) -> Iterable[str]:
    """Return the jobs to which the dependencies refer, by `namespace/name`."""
    needs = () if after is None else after.needs
    return dict.fromkeys(need.job for need in needs if need.kind != SINGLETON)


def written_dependencies(after: Dependencies) -> str:
    """Return dependencies as text for `read_dependencies`. The text names the namespace of each
    job, so it means the same in any namespace.
    """
    return ("?" if after.is_any else ",").join(map(written_need, after.needs))


def written_need(need: Dependency) -> str:
    """Return one dependency as text for `read_dependencies`."""
    delay = f"+{need.delay_s / 60:.0f}" if need.delay_s else ""
    return f"{need.kind}:{need.job}{delay}"


def _cut(text: str) -> str:
    return f"{text[:60]!a}"

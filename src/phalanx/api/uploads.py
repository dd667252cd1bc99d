"""Uploads the packages of a job to the head, when the job is submitted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from phalanx.api.job_config import JOB_CONFIG
from phalanx.model.jobs.spec import JobSpec, Process
from phalanx.model.packages import Package, PackageUri, mark_of
from phalanx.protocol.requests.packages import PutPackage
from phalanx.runtime.environments.packing import name_in_package, pack
from phalanx.runtime.environments.reading import path_of
from phalanx.runtime.environments.uploading import upload


def with_packages(
    spec: JobSpec,
    runtime_env: Mapping[str, Any],
    ask: Callable[[PutPackage], int],
    say: Callable[[str], None],
) -> JobSpec:
    """Upload the directories and modules of a job's runtime environment as packages. Returns the
    job with packages in place of their paths.

    `say` gets a line about each upload before it begins. Raises ValueError.
    """
    excludes = list(runtime_env.get("excludes") or ())
    wanted: list[tuple[str, str]] = []
    if directory := runtime_env.get("working_dir"):
        wanted.append(("working_dir", str(directory)))
    wanted += [("py_module", path_of(module)) for module in runtime_env.get("py_modules") or ()]
    packages = []
    for kind, path in wanted:
        packed = pack(path, excludes, with_its_name=kind == "py_module")
        with packed.file:
            upload(path, packed, ask, say)
        packages.append(
            Package(sha256=packed.sha256, size=packed.size, kind=kind)  # type: ignore[arg-type]
        )
    if not packages:
        return spec
    spec = msgspec.structs.replace(spec, packages=tuple(packages))
    return _passed_on(spec, [name_in_package(path) for _, path in wanted])


def _passed_on(spec: JobSpec, names: list[str]) -> JobSpec:
    """Return the job, with a setting that makes its drivers give the job's packages to their tasks
    and actors. The tasks and actors may run on other nodes than the driver.
    """
    given: dict[str, Any] = {}
    for package, name in zip(spec.packages, names, strict=True):
        if package.kind == "working_dir":
            uri = PackageUri(package.sha256, package.size, mark_of(spec.packages))
            given["working_dir"] = str(uri)
        else:
            uri = PackageUri(package.sha256, package.size, name)
            given.setdefault("py_modules", []).append(str(uri))

    def passed_on(process: Process) -> Process:
        variables = dict(process.env)
        config = json.loads(variables.get(JOB_CONFIG, "{}").replace("$$", "$"))
        config["runtime_env"] = {**given, **config.get("runtime_env", {})}
        variables[JOB_CONFIG] = json.dumps(config).replace("$", "$$")
        return msgspec.structs.replace(process, env=tuple(variables.items()))

    groups = []
    for group in spec.groups:
        processes = tuple(map(passed_on, group.template.processes))
        template = msgspec.structs.replace(group.template, processes=processes)
        groups.append(msgspec.structs.replace(group, template=template))
    return msgspec.structs.replace(spec, groups=tuple(groups))

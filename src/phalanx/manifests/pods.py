"""The reading of pod templates as processes, with warnings for fields that have an effect only on a
container platform.
"""

from __future__ import annotations

from typing import Any

from phalanx.errors import BatchFileError
from phalanx.manifests.fields import Fields
from phalanx.manifests.shapes import read_shape
from phalanx.model.environments import image_named
from phalanx.model.gpu_sharing import with_foreign_terms
from phalanx.model.jobs.spec import Pairs, Port, Process, Template
from phalanx.model.options import amount_fault, names_variables

PLACING = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
IN_A_POD = {
    "volumes": "processes see the node's own files; use paths that exist there",
    "serviceAccountName": "processes run as the user who runs the node",
    "serviceAccount": "processes run as the user who runs the node",
    "automountServiceAccountToken": "there are no service accounts here",
    "securityContext": "processes run as the user who runs the node",
    "imagePullSecrets": "a node's tool pulls images with its user's own credentials",
    "hostNetwork": "processes always use the node's network",
    "hostPID": "processes always see the node's processes",
    "hostIPC": "processes always share the node's memory",
    "dnsPolicy": "names resolve as they do on the node",
    "dnsConfig": "names resolve as they do on the node",
    "hostAliases": "names resolve as they do on the node",
    "hostname": "processes have the node's host name",
    "subdomain": "processes have the node's host name",
    "schedulerName": "there is one scheduler",
    "runtimeClassName": "no container runtime is used",
    "shareProcessNamespace": "processes always see the node's processes",
    "enableServiceLinks": "there are no services here",
    "nodeName": "the scheduler picks the node; narrow its choice with nodeSelector",
    "ephemeralContainers": "only the processes of the manifest run",
    "resourceClaims": "devices are asked for as resources",
    "preemptionPolicy": "write it into the PriorityClass",
    "overhead": "a process needs nothing in addition to its request",
}
IN_A_CONTAINER = {
    "imagePullPolicy": "a node pulls an image when it does not have it",
    "volumeMounts": "processes see the node's own files; use paths that exist there",
    "volumeDevices": "processes see the node's own files",
    "securityContext": "processes run as the user who runs the node",
    "livenessProbe": "a process is alive until it ends",
    "readinessProbe": "a process is ready once it runs",
    "startupProbe": "a process is ready once it runs",
    "lifecycle": "only the command itself runs",
    "envFrom": "write the variables out under env",
    "terminationMessagePath": "what a process prints is in its log",
    "terminationMessagePolicy": "what a process prints is in its log",
    "stdin": "processes have no input",
    "stdinOnce": "processes have no input",
    "tty": "processes have no terminal",
    "resizePolicy": "what a process holds does not change while it runs",
}
BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")


def read_template(at: Fields) -> Template:
    """Return the template in the fields `metadata` and `spec` of a pod template."""
    metadata = at.fields("metadata")
    labels, annotations = metadata.pairs("labels"), metadata.pairs("annotations")
    for key in ("name", "namespace", "creationTimestamp", "generateName"):
        metadata.raw(key)  # members are named after their job and group
    metadata.warn_unknown()
    check_budgets(metadata, annotations)
    spec = at.fields("spec")
    at.warn_unknown()
    template = read_pod(spec, labels, annotations)
    spec.warn_unknown()
    return template


def check_budgets(metadata: Fields, annotations: Pairs) -> None:
    """Check the disruption budgets: there is at most one, and it is a positive whole number or 1 %
    to 99 %.
    """
    given = [(key, value) for key, value in annotations if key in BUDGETS]
    if len(given) > 1:
        reason = "give either jdb-min-available or jdb-max-unavailable, not both"
        metadata.error("annotations", "budget_both", reason)
    for key, value in given:
        number = value.removesuffix("%")
        # isdecimal also accepts the digits of other scripts, which int() reads as well.
        amount = int(number) if number.isdecimal() and len(number) < 10 else 0
        if amount < 1 or (value.endswith("%") and amount > 99):
            reason = f"a budget must be a whole number above 0, or 1% to 99%, not {value!r}"
            metadata.error(("annotations", key), "budget_invalid", reason)


def read_pod(spec: Fields, labels: Pairs, annotations: Pairs) -> Template:
    """Return the template in the `spec` of a Pod or of a pod template."""
    for key, why in IN_A_POD.items():
        spec.unused(key, why)
    placement: dict[str, Any] = {key: spec.raw(key) for key in PLACING if spec.has(key)}
    _check_placing(spec, placement)
    spec.raw("priority")  # filled in from the class
    time_limit = spec.optional_whole("activeDeadlineSeconds")
    if time_limit is not None and time_limit < 1:
        reason = f"activeDeadlineSeconds must be 1 or more, not {time_limit}"
        spec.error("activeDeadlineSeconds", "out_of_range", reason)
    grace = spec.whole("terminationGracePeriodSeconds", 30)
    if grace < 0:
        reason = f"terminationGracePeriodSeconds must be 0 or more, not {grace}"
        spec.error("terminationGracePeriodSeconds", "out_of_range", reason)
    restart = spec.choice("restartPolicy", ("Never", "OnFailure", "Always"), "Never")
    if restart == "Always":
        reason = "a member that succeeds has ended; only failures are tried again"
        spec.warn("restartPolicy", "as_on_failure", reason)
    template = Template(
        processes=tuple(_process(c) for c in spec.items("containers")),
        before=tuple(_process(c) for c in spec.items("initContainers")),
        restart="Never" if restart == "Never" else "OnFailure",
        grace_s=float(grace),
        time_limit_s=None if time_limit is None else float(time_limit),
        priority_class=spec.text("priorityClassName"),
        labels=labels,
        annotations=annotations,
        placement=placement,
    )
    try:
        amounts = dict(kv for process in template.processes for kv in process.needs.items())
        with_foreign_terms(amounts, dict(annotations))
    except ValueError as error:
        spec.error("containers", "gpu_sharing_invalid", str(error))
    for resource, amount in template.needs.items():
        if (allowed := amount_fault(resource, amount)) is not None:
            reason = f"each member would hold {amount:g} of {resource}; allowed: {allowed}"
            spec.error("containers", "amount_not_held", reason)
    return template


def _check_placing(spec: Fields, placement: dict[str, Any]) -> None:
    """Check the fields that limit the choice of nodes, by reading them as the scheduler reads
    them.
    """
    for key, value in placement.items():
        try:
            read_shape({"topology_spread" if key == PLACING[-1] else key: value})
        except BatchFileError as e:
            spec.error(key, "placement_invalid", e.reason)


def _process(at: Fields) -> Process:
    for key, why in IN_A_CONTAINER.items():
        at.unused(key, why)
    resources = at.fields("resources")
    requests, limits = resources.amounts("requests"), resources.amounts("limits")
    resources.unused("claims", "devices are asked for as resources")
    resources.warn_unknown()
    most = dict(limits)
    for name, amount in requests:
        if amount > most.get(name, amount):
            reason = f"the request of {name}, {amount:g}, is above its limit {most[name]:g}"
            resources.error("requests", "request_above_limit", reason)
    process = Process(
        name=at.text("name"),
        command=at.texts("command"),
        args=at.texts("args"),
        env=_environment(at),
        working_dir=at.text("workingDir"),
        image=_image(at),
        requests=requests,
        limits=limits,
        ports=_ports(at),
    )
    if not process.argv:
        reason = "no command: no image is pulled here, so nothing would run"
        at.warn("command" if at.has("command") else "", "no_command", reason)
    at.warn_unknown()
    return process


def _image(at: Fields) -> str:
    name = at.text("image")
    if not name:
        return ""
    try:
        image_named(name, is_optional=True)
    except ValueError as error:
        at.error("image", "image_invalid", str(error))
    at.warn(
        "image",
        "no_meaning_here",
        "used only on nodes with podman, apptainer, enroot or docker; on others the command runs "
        "with the node's programs",
    )
    return name


def _environment(at: Fields) -> Pairs:
    out: dict[str, str] = {}
    for item in at.items("env"):
        name = item.text("name")
        if not names_variables((name,)):
            item.error("name", "env_name_invalid", "a variable needs a name without '='")
        item.unused("valueFrom", "only values written in the manifest can be passed on")
        if "value" in item.known or not item.has("valueFrom"):
            out[name] = item.loose_text("value")
        item.warn_unknown()
    return tuple(out.items())


def _ports(at: Fields) -> tuple[Port, ...]:
    ports = []
    for item in at.items("ports"):
        number = item.whole("containerPort")
        if not 0 < number <= 65_535:
            item.error("containerPort", "port_invalid", f"a port must be 1 to 65535, not {number}")
        host = item.optional_whole("hostPort")
        if host is not None and host != number:
            reason = f"processes use the node's network: they listen on {number}, not {host}"
            item.warn("hostPort", "no_meaning_here", reason)
        item.unused("hostIP", "processes use the node's network")
        item.text("protocol")
        ports.append(Port(number=number, name=item.text("name")))
        item.warn_unknown()
    return tuple(ports)

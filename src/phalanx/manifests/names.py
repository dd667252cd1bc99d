"""Checks of names by Kubernetes' rules, which are the same for manifests, programs and commands."""

from __future__ import annotations

import re

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
MAX_LABEL = 63
MAX_SUBDOMAIN = 253
CLUSTER_WIDE = ("Queue", "HyperNode", "PriorityClass", "Reservation")
"""The kinds of objects without a namespace; their names have the form of domain names."""


def label_fault(name: str) -> str | None:
    """Return why `name` is not a DNS label (the name of a task group, or a namespace), or None."""
    if len(name) > MAX_LABEL or not _LABEL.fullmatch(name):
        return (
            f"{shown(name)} is not a valid name: up to {MAX_LABEL} small letters, digits and '-', "
            "with a letter or digit at both ends"
        )
    return None


def qualified_fault(name: str) -> str | None:
    """Return why `name` cannot name a job or one of its members, or None."""
    if len(name) > MAX_LABEL or not _QUALIFIED.fullmatch(name):
        return (
            f"{shown(name)} is not a valid name: up to {MAX_LABEL} letters, digits, '-', '_' "
            "and '.', "
            "with a letter or digit at both ends"
        )
    return None


def subdomain_fault(name: str) -> str | None:
    """Return why `name` cannot name a queue or a domain, or None."""
    if len(name) > MAX_SUBDOMAIN or not _SUBDOMAIN.fullmatch(name):
        return (
            f"{shown(name)} is not a valid name: up to {MAX_SUBDOMAIN} small letters, digits, '-' "
            "and '.', "
            "with a letter or digit at both ends"
        )
    return None


def free_fault(field: str, name: str) -> str | None:
    """Return why `name` cannot name a user or a reservation, or None."""
    if len(name) > MAX_SUBDOMAIN or not name.isprintable():
        return f"{field} must be a name of at most {MAX_SUBDOMAIN} characters, not {shown(name)}"
    return None


def object_fault(kind: str, name: str, namespace: str = "") -> str | None:
    """Return why an object of this kind cannot have these names, or None."""
    if kind in CLUSTER_WIDE:
        return subdomain_fault(name)
    fault = qualified_fault(name)
    if fault is None and (fault := label_fault(namespace)) is not None:
        return f"namespace {fault}"
    return fault


def member_fault(job: str, group: str, replicas: int) -> str | None:
    """Return why the names of a group's members are not valid; None if they are valid.

    A member's name consists of the job's name, the group's name and a number.
    """
    fault = label_fault(group) or qualified_fault(f"{job}-{group}-{max(replicas - 1, 0)}")
    return None if fault is None else f"a member's name: {fault}"


def shown(name: str) -> str:
    """Return a name from outside as text that is safe on a terminal; a long name is cut."""
    return ascii(name) if len(name) <= MAX_SUBDOMAIN else f"{name[:40]!a}... ({len(name)})"

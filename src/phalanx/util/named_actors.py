"""The list of living named actors."""

from __future__ import annotations

from phalanx.api.session import running_engine


def list_named_actors(all_namespaces: bool = False) -> list[str] | list[dict[str, str]]:
    """Return the names of living actors in this job's namespace or, for all namespaces, a dict
    {name, namespace} for each.

    Example:
        names = list_named_actors()
    """
    engine = running_engine()
    wanted = None if all_namespaces else engine.namespace
    found = engine.named_actors(wanted)
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in found]
    return [name for _, name in found]

"""Sets the owner of submitted work to its asker, as the head has authenticated the asker."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.errors import NotAllowedError
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec
from phalanx.model.principals import JOB
from phalanx.protocol.requests.request import Asker


def owned_by(spec: Any, asker: Asker[Any]) -> Any:
    """Return a job, flow or cron job with the asker as its owner; return anything else unchanged.

    An admin may submit for the user whom a manifest names. Raises NotAllowedError if another asker
    names somebody else. If there are no identities, as on Ray, the user in the manifest stays.
    """
    if isinstance(spec, CronSpec):
        return msgspec.structs.replace(spec, job=owned_by(spec.job, asker))
    if not isinstance(spec, JobSpec | FlowSpec):
        return spec
    return msgspec.structs.replace(
        spec, user=owner_for(spec.user, asker), submitted_by=asker.within
    )


def owner_for(named: str, asker: Asker[Any]) -> str:
    """Return the owner of work. `named`: the user whom the sender named; "" if none."""
    principal = asker.principal
    if principal is None or named == principal.user:
        return named
    if named and not asker.names_owners:
        raise NotAllowedError(
            f"{principal} may not submit work for {named}: only an admin names another user; "
            "without `user` the work belongs to its submitter"
        )
    return named or principal.user


def signed(by: str, asker: Asker[Any]) -> str:
    """Return `by` as USER@HOST. The user is the authenticated one, and only the host is taken from
    `by`. An empty `by` stays empty. Without authentication, `by` is returned unchanged.
    """
    if asker.principal is None or not by:
        return by
    name = asker.principal.user or str(asker.principal)
    return f"{name}@{by.rpartition('@')[2]}"


def sees(asker: Asker[Any], owner: str) -> bool:
    """Whether the asker sees work of this owner in listings. A job sees only the work of its
    owner.
    """
    principal = asker.principal
    return principal is None or principal.kind != JOB or owner in ("", principal.user)

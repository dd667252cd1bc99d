"""The plugin fair-tree: users of a queue who have used less of their shares come first.

Jobs are ordered by Fair Tree's ranks (plugin_parts.users), then by the plugins after this one, then
by age. The plugin does not order queues. Usage is in billing units times seconds, and has a
half-life (plugin_parts.past_use).
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.billing import ACCEPTS, terms_of
from phalanx.scheduler.plugin_parts.users import Users


class FairTree:
    """The plugin fair-tree. Arguments: `halfLife` (168h), `penalty` (5m), `billing` (weights by
    resource, {cpu: 1}).
    """

    name = "fair-tree"
    accepts: ClassVar[Accepted] = ACCEPTS

    def __init__(self, arguments: Arguments) -> None:
        self._terms = terms_of(arguments)

    def open(self, session: Session) -> None:
        users = Users(session, self._terms)

        def place(job: Job) -> int:
            standing = users.standing(job)
            return 0 if standing is None else -standing.rank

        def factors(job: Job) -> dict[str, float]:
            user, used = users.of(job), users.used(job)
            standing = users.standing(job)
            return {
                "shares": user.shares,
                "use": user.use,
                "use_part": user.use / used if used else 0.0,
                "rank": 0 if standing is None else standing.rank,
                "of": users.count(job),
            }

        session.add("job_order", self.name, place)
        session.add("factors", self.name, factors)

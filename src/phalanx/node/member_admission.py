"""The conditions under which a member begins here: a free bundle, files, GPUs and a working
node.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from phalanx.model.ids import MemberId
from phalanx.model.shortages import is_shortage
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.bundle_table import BundleTable
from phalanx.node.directories import Directories, NoDirectories
from phalanx.node.gpu_shares import GpuShares, NoMpsDaemons
from phalanx.node.kept_members import KeptMember
from phalanx.node.member import Member, usage_of
from phalanx.node.member_effects import CommandEnd, MemberEffects
from phalanx.node.member_records import resumed
from phalanx.node.shortage import Shortage
from phalanx.protocol.bundle_messages import StartMember


class Refused(NamedTuple):
    """The reason why a member cannot begin here."""

    reason: str
    is_nodes_fault: bool = False
    """Whether the node is the cause, so that the member can begin later."""


TAKEN = Refused("its place is taken")


class MemberAdmission:
    """Provides members with a bundle, files and GPUs before they begin."""

    def __init__(
        self,
        effects: MemberEffects,
        bundles: BundleTable,
        directories: Directories | None,
        shortage: Shortage | None,
        gpus: GpuShares | None,
    ) -> None:
        self._clock = effects.clock
        self._files = effects.files
        self._bundles = bundles
        self.directories = directories or Directories(NoDirectories(), effects.clock, effects.note)
        self.shortage = shortage or Shortage(effects.clock, effects.note)
        self.gpus = gpus or GpuShares(NoMpsDaemons())

    def pool(self, place: MemberId) -> BundlePool | None:
        """Return the bundle of a member; None while the bundle is being taken away."""
        return next(self._bundles.pools(place), None)

    def admit(self, order: StartMember, pool: BundlePool, is_quiet: bool) -> Member | Refused:
        """Give a member its bundle, and make its files. Returns the member, or the reason why it
        cannot begin: its bundle is not free, or its files, its GPUs or the node are not in order.
        """
        held = pool.acquire(pool.resources)
        if held is None:
            return TAKEN
        variables: dict[str, str] = {}
        trouble, why, log = self.directories.seen() or self.shortage.trouble, "", ""
        try:
            variables = {} if trouble else self.gpus.variables(held, pool)
        except OSError as error:
            trouble = f"GPUs cannot be shared by MPS: {error}"
        try:
            log = "" if trouble else self._files.make(order)
        except OSError as error:
            why = f"its files could not be made: {error.strerror}"
            trouble = self._trouble_after(why, is_shortage(error))
        if trouble or why:
            pool.release(held)
            why = f"its node is not well: {trouble}" if trouble else why
            return Refused(why, is_nodes_fault=bool(trouble))
        now = self._clock()
        return Member(
            order=order,
            pool=pool,
            held=held,
            log=log,
            waiting=list(order.before),
            began_at=now + order.rest_s,
            usage=usage_of(held, now),
            variables=variables,
            rests=order.rest_s > 0,
            is_quiet=is_quiet,
        )

    def readmit(self, kept: KeptMember, begun: Collection[bytes]) -> Member | None:
        """Give its bundle again to a member that an earlier process of this node began. Returns the
        member; None if the bundle is not free.
        """
        pool = self.pool(kept.place)
        held = None if pool is None else pool.acquire(pool.resources)
        return None if pool is None or held is None else resumed(kept, begun, pool, held)

    def trouble_of(self, member: Member, end: CommandEnd) -> str:
        """Return what is wrong with the node, after the first command of a member could not even
        begin. Returns "" if nothing is wrong with the node, or if a command has begun.
        """
        if not end.is_unstarted or member.has_begun or member.is_ending:
            return ""
        return self._trouble_after(end.reason, end.is_shortage)

    def _trouble_after(self, failure: str, is_shortage: bool) -> str:
        missing = self.shortage.failed(failure) if is_shortage else ""
        return self.directories.look(writes=True) or missing

"""The protocol of levers. Each has its own module, and a line in `broker.enforcement.levers.registry`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from broker.enforcement.levers.canary import Canary
from broker.enforcement.model import Lease, LeverName, Target, ThrottleDecision
from broker.errors import BrokerError

StepName = Literal["keep", "apply", "confirm", "restore", "close", "relinquish"]


@dataclass(frozen=True)
class NextStep:
    """The next step of an open lease.

    `keep`: do nothing. `apply`: set it. `confirm`: log that it is set. `restore`: remove it. `close`: log that it is
    gone. `relinquish`: leave it, because someone else changed it (or removed it: `vanished`). `why` is empty for the
    usual reasons.
    """

    name: StepName
    why: str = ""
    vanished: bool = False


@dataclass(frozen=True)
class Targets:
    """Entities to enforce a decision on; they `cover` it if nearly all refused producer ids come from them."""

    targets: tuple[Target, ...]
    why: str
    cover: bool = False


@dataclass(frozen=True)
class TargetLimits:
    """Limits on the choice of targets.

    Attributes:
        narrow: Whether single client ids may be throttled instead of the user.
        shared_client_ids: Client ids that healthy producers also use.
        written: Client ids of the user that ever had a lease of their own.
        spare_user: Whether a stronger lever covers the refused producer ids, so that the whole user is not slowed.
    """

    narrow: bool = True
    shared_client_ids: Collection[str] = ()
    written: Collection[str] = ()
    spare_user: bool = False


class LeaseChange(NamedTuple):
    """A lease to set on the brokers, perhaps with another end, or to remove."""

    lease: Lease
    is_set: bool


@dataclass(frozen=True)
class Stray:
    """A setting on the brokers that looks like a lease's but belongs to none, and the command that removes it.

    `remove` removes it if it is certainly ours, or raises BrokerError; None if an operator may have set it.
    """

    target: Target
    why: str
    command: str
    remove: Callable[[], None] | None = None


NEARLY_ALL = 0.95
"""Minimum share of the refused producer ids that the targets must cover."""


class Lever(Protocol):
    """Keeps a principal from getting new producer ids."""

    name: LeverName
    suffices: bool
    """Whether it suffices without a weaker lever."""

    @property
    def canary(self) -> Canary | None:
        """Tells whether something removes what the lever sets; None if the lever has no canary."""

    def unavailable_reason(self) -> str:
        """Return why it can't be used here and now; empty if it can."""

    def targets(self, decision: ThrottleDecision, limits: TargetLimits) -> Targets:
        """Choose the entities that a decision is enforced on."""

    def new_lease(self, decision: ThrottleDecision, target: Target, now_ms: int) -> Lease | str:
        """Return the lease to take, or the reason against it; raises BrokerError."""

    def next_step(self, lease: Lease, now_ms: int) -> NextStep:
        """Compare an open lease with the brokers; raises BrokerError."""

    def change(self, changes: Sequence[LeaseChange]) -> Mapping[Target, BrokerError | None]:
        """Set or remove leases; return the error of each target, and raise none."""

    def strays(self, known: Collection[Lease], now_ms: int) -> list[Stray]:
        """Find settings that look like a lease's but belong to none; raises BrokerError."""

"""What a lever is. Each has a module of its own, and a line in `broker.enforcement.levers.registry`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from broker.enforcement.levers.canary import Canary
from broker.enforcement.model import Lease, LeverName, Target, ThrottleDecision
from broker.errors import BrokerError

StepName = Literal["keep", "apply", "confirm", "restore", "close", "relinquish"]


@dataclass(frozen=True)
class NextStep:
    """What to do about an open lease.

    Attributes:
        name: `keep`: nothing. `apply`: set it. `confirm`: it is set; log that. `restore`: take it back. `close`: it is
            gone; log that. `relinquish`: someone else changed it; leave it to them.
        why: In words; empty for the usual reasons.
        vanished: Whether someone else removed it, rather than changed it.
    """

    name: StepName
    why: str = ""
    vanished: bool = False


@dataclass(frozen=True)
class Targets:
    """Entities that a decision is enforced on; none if it can't be.

    `cover` tells whether nearly all refused producer ids come from them.
    """

    targets: tuple[Target, ...]
    why: str
    cover: bool = False


@dataclass(frozen=True)
class TargetLimits:
    """What bounds the choice of targets.

    Attributes:
        narrow: Whether single client ids may be throttled instead of the user.
        shared_client_ids: Client ids that healthy producers also use.
        written: Client ids of the user that ever had a lease of their own.
        spare_user: Whether the user as a whole is not to be slowed, since a stronger lever covers the refused producer
            ids.
    """

    narrow: bool = True
    shared_client_ids: Collection[str] = ()
    written: Collection[str] = ()
    spare_user: bool = False


@dataclass(frozen=True)
class LeaseChange:
    """A lease to set on the brokers (again, with another end), or to take back."""

    lease: Lease
    is_set: bool


@dataclass(frozen=True)
class Stray:
    """Something on the brokers that looks like a lease's, and belongs to none.

    Attributes:
        target: What it acts on.
        why: What it is, in words.
        command: How an operator removes it.
        remove: Removes it, since it is certainly ours; None if an operator may have set it. Raises BrokerError.
    """

    target: Target
    why: str
    command: str
    remove: Callable[[], None] | None = None


NEARLY_ALL = 0.95
"""Share of the refused producer ids that a choice of targets has to cover."""


class Lever(Protocol):
    """A way to keep a principal from getting new producer ids."""

    @property
    def name(self) -> LeverName:
        """As in leases, tables and options."""

    @property
    def suffices(self) -> bool:
        """Whether it needs no weaker lever beside it."""

    @property
    def canary(self) -> Canary | None:
        """Tells whether something removes what the lever sets; None if the lever has no canary."""

    def unavailable_reason(self) -> str:
        """Return why it can't be used here and now; empty if it can."""

    def targets(self, decision: ThrottleDecision, limits: TargetLimits) -> Targets:
        """Choose the entities that a decision is enforced on."""

    def new_lease(self, decision: ThrottleDecision, target: Target, now_ms: int) -> Lease | str:
        """Return the lease to take, or why none is."""

    def next_step(self, lease: Lease, now_ms: int) -> NextStep:
        """Compare an open lease with what the brokers have; raises as `new_lease`."""

    def change(self, changes: Sequence[LeaseChange]) -> Mapping[Target, BrokerError | None]:
        """Set leases, and take others back; return the error of each target. Never raises for a single one."""

    def strays(self, known: Collection[Lease], now_ms: int) -> list[Stray]:
        """Find what looks like a lease's and belongs to none of these; raises as `new_lease`."""

"""The protocol of levers. Each lever has its own module, and a line in `broker.enforcement.levers.registry`."""

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

    `keep`: do nothing. `apply`: set the lease's setting. `confirm`: log that it is set. `restore`: undo it. `close`:
    log that it is undone. `relinquish`: leave the setting alone, because someone else changed it or, with `vanished`,
    removed it. `why` is empty for the usual reasons.
    """

    name: StepName
    why: str = ""
    vanished: bool = False


@dataclass(frozen=True)
class Targets:
    """Entities to enforce a decision on. `cover` tells whether nearly all refused producer ids come from them."""

    targets: tuple[Target, ...]
    why: str
    cover: bool = False


@dataclass(frozen=True)
class TargetLimits:
    """Limits on the choice of targets.

    Attributes:
        narrow: Whether to throttle single client ids instead of the user, if possible.
        shared_client_ids: Client ids that healthy producers also use.
        written: Client ids of the user that ever had their own lease.
        spare_user: Whether not to slow the whole user, because a stronger lever covers the refused producer ids.
    """

    narrow: bool = True
    shared_client_ids: Collection[str] = ()
    written: Collection[str] = ()
    spare_user: bool = False


class LeaseChange(NamedTuple):
    """A lease to set on the brokers, perhaps with a new end, or to remove from them."""

    lease: Lease
    is_set: bool


@dataclass(frozen=True)
class Stray:
    """A setting on the brokers that looks like a lease's but belongs to no lease, and the command that removes it.

    `remove` removes the setting or raises BrokerError. It is None if an operator may have made the setting.
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
    """Whether the lever suffices without a weaker one."""

    @property
    def canary(self) -> Canary | None:
        """The canary, which detects a reconciler that removes the lever's settings; None if the lever has no canary."""

    def unavailable_reason(self) -> str:
        """Return why the lever can't be used now; empty if it can."""

    def targets(self, decision: ThrottleDecision, limits: TargetLimits) -> Targets:
        """Choose the entities to enforce a decision on."""

    def new_lease(self, decision: ThrottleDecision, target: Target, now_ms: int) -> Lease | str:
        """Return the lease to take, or the reason against it. Raises BrokerError."""

    def next_step(self, lease: Lease, now_ms: int) -> NextStep:
        """Compare an open lease with the brokers. Raises BrokerError."""

    def change(self, changes: Sequence[LeaseChange]) -> Mapping[Target, BrokerError | None]:
        """Set or remove leases. Return the error of each target instead of raising it."""

    def strays(self, known: Collection[Lease], now_ms: int) -> list[Stray]:
        """Find settings that look like a lease's but belong to no lease. Raises BrokerError."""

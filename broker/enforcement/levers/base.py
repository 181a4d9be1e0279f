"""The protocol of levers. `registry` lists all levers."""

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

    `keep`: do nothing. `apply`: make the lease's setting. `confirm`: log that the setting is made. `restore`: undo the
    setting. `close`: log that the setting is undone. `relinquish`: end the lease, because someone else changed the
    setting or, with `vanished`, removed the setting. `why` tells an unusual reason, or is empty.
    """

    name: StepName
    why: str = ""
    vanished: bool = False


@dataclass(frozen=True)
class Targets:
    """Targets of a decision's leases. `cover` tells whether the targets have nearly all refused producer ids."""

    targets: tuple[Target, ...]
    why: str
    cover: bool = False


@dataclass(frozen=True)
class TargetLimits:
    """Limits on the choice of targets.

    Attributes:
        narrow: Whether to throttle single client ids instead of the user, if possible.
        shared_client_ids: Client ids that healthy producers also use.
        written: The user's client ids that have been the target of a lease.
        spare_user: Whether the user must not be a target, because a stronger lever covers the refused producer ids.
    """

    narrow: bool = True
    shared_client_ids: Collection[str] = ()
    written: Collection[str] = ()
    spare_user: bool = False


class LeaseChange(NamedTuple):
    """A lease whose setting is to be made (`is_set`) or undone on the brokers."""

    lease: Lease
    is_set: bool


@dataclass(frozen=True)
class Stray:
    """A setting on the brokers that looks like a lease's setting but belongs to no lease.

    An operator can remove the setting with `command`. `remove` is None if an operator may have made the setting.
    """

    target: Target
    why: str
    command: str
    remove: Callable[[], None] | None = None


NEARLY_ALL = 0.95
"""Minimum share that counts as nearly all refused producer ids."""


class Lever(Protocol):
    """A way to keep a principal from getting new producer ids."""

    name: LeverName
    suffices: bool
    """Whether the lever suffices without a weaker lever."""

    @property
    def canary(self) -> Canary | None:
        """The lever's canary, or None."""

    def unavailable_reason(self) -> str:
        """Return why the lever can't be used now, or an empty text."""

    def targets(self, decision: ThrottleDecision, limits: TargetLimits) -> Targets:
        """Choose the entities to enforce a decision on."""

    def new_lease(self, decision: ThrottleDecision, target: Target, now_ms: int) -> Lease | str:
        """Return the lease to take, or the reason against it. Raises BrokerError."""

    def next_step(self, lease: Lease, now_ms: int) -> NextStep:
        """Compare an open lease with the brokers. Raises BrokerError."""

    def change(self, changes: Sequence[LeaseChange]) -> Mapping[Target, BrokerError | None]:
        """Make or undo the settings of leases. Return each target's error."""

    def strays(self, known: Collection[Lease], now_ms: int) -> list[Stray]:
        """Find settings of the lever that belong to no lease. Raises BrokerError."""

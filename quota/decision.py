"""Throttle decisions about principals that exceed their quota."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from quota.limits import QuotaSource

Action = Literal["THROTTLE", "RELEASE"]
Reason = Literal["over_quota", "throttle_ended", "quota_changed"]
"""Reason of a decision: a PID was refused, the throttle has ended, or the quota was raised or removed."""

Client = tuple[str, str]
"""Client id and address. An unknown value is empty."""

MAX_CLIENTS = 16
"""Maximum number of client ids, and of addresses, in a decision."""
OTHER_CLIENTS = "other"
MAX_SAMPLE_PIDS = 10


@dataclass(frozen=True)
class Evidence:
    """The refused PIDs of a throttle so far.

    Attributes:
        refused_pids: Estimated number of distinct PIDs: exact for dozens, about 3 % off for thousands.
        sample_pids: The first few PIDs.
        client_ids: PIDs per client id, in at most `MAX_CLIENTS` entries. `OTHER_CLIENTS` counts the rest.
        addresses: PIDs per client address, with the same limit. Unknown addresses are left out.
    """

    refused_pids: int = 0
    sample_pids: tuple[int, ...] = ()
    client_ids: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """A THROTTLE, or the RELEASE that ends it. Times are milliseconds since the epoch."""

    decision_id: str
    principal: str
    action: Action
    reason: Reason
    decided_at_ms: int
    throttle_time_ms: int
    throttled_until_ms: int
    tokens: float | None
    rate: float
    quota: float | None
    burst: float | None
    quota_source: QuotaSource
    quota_updated_at_ms: int | None
    evidence: Evidence


def decision_id(
    principal: str,
    episode_start_ms: int,
    renewal: int,
    action: Action,
    quota_updated_at_ms: int | None = None,
    learn_until_ms: int = 0,
) -> str:
    """Return a decision's id. The id does not depend on batches, so a replay gives the same id.

    Episodes of a ledger start in different milliseconds. `quota_updated_at_ms` is the time of the quota in force.
    `learn_until_ms` is the end of the ledger's own learning time, which tells the ledger from one that was lost.

    Examples:
        >>> decision_id("User:alice", 0, 0, "THROTTLE") == decision_id("User:alice", 0, 1, "THROTTLE")
        False
    """
    name = f"{principal}\x00{episode_start_ms}\x00{renewal}\x00{action}\x00{quota_updated_at_ms}\x00{learn_until_ms}"
    return hashlib.blake2b(name.encode(), digest_size=12).hexdigest()

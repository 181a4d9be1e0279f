"""State buckets: several principals in one state, for streams with thousands of them.

Spark's operator costs most per group and batch, whatever the group does, so fewer groups are faster. The price is that
a bucket is written as a whole when one of its principals changes. What is decided is the same: each principal has its
own ledger here, too.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pandas as pd

from state.events import Deployment
from streaming import operator
from streaming.operator import apply, expire
from streaming.quotas import OpenQuotas, no_quotas
from streaming.roster import Roster, no_roster
from streaming.rows import Rows, pack
from streaming.slots import GroupSlot
from streaming.tasks import keep_modules

BUCKET_COLUMN = "bucket"

_Stored = dict[str, tuple[int, bytes]]
"""By principal: the event time from which on its ledger may go, and the ledger."""
_decoder = msgspec.msgpack.Decoder(_Stored)


class BucketSlot:
    """One principal's part of a bucket; a `streaming.operator.Slot`."""

    def __init__(self, stored: tuple[int, bytes] | None) -> None:
        """Hold what is stored of the principal, None for a new one."""
        self.stored = stored
        self.has_changed = False

    def get(self) -> bytes | None:
        """Return what is stored."""
        return None if self.stored is None else self.stored[1]

    def put(self, content: bytes, look_again_ms: int) -> None:
        """Store; looked at again when event time is so much further."""
        self.stored, self.has_changed = (operator.reached.newest_ms + look_again_ms, content), True

    def remove(self) -> None:
        """Forget."""
        self.stored, self.has_changed = None, True


def operate_bucket(
    deployment: Deployment,
    never_enforced: frozenset[str],
    key: tuple[int],
    frames: Iterator[pd.DataFrame],
    state: Any,
    get_roster: Callable[[], Roster] = no_roster,
    get_quotas: OpenQuotas = no_quotas,
) -> Iterator[pd.DataFrame]:
    """Give the events of the principals of one bucket to their ledgers; the function of `applyInPandasWithState`.

    Args:
        deployment: As of `streaming.operator.operate`.
        never_enforced: As there.
        key: The bucket.
        frames: Its tallies.
        state: Spark's `GroupState` of `STATE_SCHEMA`.
        get_roster: As there.
        get_quotas: As there.

    Yields:
        Rows of `streaming.rows.OUTPUT_SCHEMA`.
    """
    del key
    keep_modules()
    spark_slot = GroupSlot(state)
    content = spark_slot.get()
    stored: _Stored = _decoder.decode(content) if content else {}
    asked = {} if state.hasTimedOut else _by_principal(frames)
    slots: dict[str, BucketSlot] = {}
    output: Rows = []
    quotas = get_quotas() if asked else no_quotas()
    for principal, packed in asked.items():
        slots[principal] = slot = BucketSlot(stored.get(principal))
        limit = quotas.limit(principal)
        output += apply(deployment, never_enforced, principal, packed, limit, slot, get_roster)
    for principal in _silent(stored, asked):
        slots[principal] = slot = BucketSlot(stored[principal])
        output += expire(principal, deployment, slot)
    changed = {principal: slot.stored for principal, slot in slots.items() if slot.has_changed}
    if changed:
        _store({name: found for name, found in (stored | changed).items() if found is not None}, spark_slot)
    if output:
        yield pack(output)


def _by_principal(frames: Iterator[pd.DataFrame]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for frame in frames:
        for principal, packed in zip(frame["principal"].tolist(), frame["packed"].tolist(), strict=True):
            found.setdefault(principal, []).append(packed)
    # Tasks finish in any order, and a repeated batch must say the same.
    return dict(sorted(found.items()))


def _silent(stored: _Stored, asked: dict[str, Any]) -> list[str]:
    return sorted(
        principal
        for principal, (expires_ms, _) in stored.items()
        if expires_ms <= operator.reached.newest_ms and principal not in asked
    )


def _store(content: _Stored, slot: GroupSlot) -> None:
    if not content:
        slot.remove()
        return
    left_ms = min(expires_ms for expires_ms, _ in content.values()) - operator.reached.newest_ms
    slot.put(msgspec.msgpack.encode(content), max(left_ms, 1000))

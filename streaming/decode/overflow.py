"""Maps principals beyond `max_principals` to a few shared ledgers, called overflow entries.

The limit protects the stream from forged principals. Each principal costs memory, and about a millisecond in each batch
with its events. Principals with their own quota get their own ledger even beyond the limit.
"""

import zlib
from collections.abc import Sequence

from quota.limits import Quotas
from quota.principals import NEVER_ENFORCED, OVERFLOW_ENTRIES, OVERFLOW_PRINCIPALS
from streaming.batch.context import BatchContext
from streaming.batch.tracked_principals import TrackedPrincipals

NO_QUOTAS = Quotas()


class Gate:
    """Decides which principals of one task get a ledger of their own. Not thread-safe."""

    def __init__(self, tracked: TrackedPrincipals, share: int, quotas: Quotas = NO_QUOTAS) -> None:
        """Create the gate of a task that may give a ledger to `share` principals that are not in `tracked`."""
        self._tracked, self._quotas = tracked, quotas
        self._left = share
        self._unchecked = share
        self._is_settled = False
        self._passed: set[str] = set(NEVER_ENFORCED)

    @classmethod
    def open(cls, batch: BatchContext, max_principals: int, max_tasks: int | None = None) -> "Gate":
        """Return the gate of a task of a batch. Each task gets an equal share of the remaining ledgers.

        `max_tasks` is as in `streaming.decode.preaggregate.PreAggregate`.
        """
        tracked, tasks = batch.before.tracked, batch.partitions
        if max_tasks is not None:
            tasks = min(tasks, max_tasks)
        return cls(tracked, max(0, max_principals - len(tracked)) // max(1, tasks), batch.quotas)

    def keys(self, principals: Sequence[str]) -> dict[str, str]:
        """Return the overflow entry of each principal without its own ledger. Ledgers go to the first principals."""
        unseen = [principal for principal in principals if principal not in self._passed]
        if len(unseen) <= self._unchecked:
            # There are enough ledgers even if all of these principals are new. This common case needs no hashing.
            self._unchecked -= len(unseen)
            self._passed.update(unseen)
            return {}
        self._settle()
        beyond: dict[str, str] = {}
        for principal, is_tracked in zip(unseen, self._tracked.holds(unseen).tolist(), strict=True):
            if is_tracked or self._left > 0:
                self._left -= not is_tracked
                self._passed.add(principal)
            elif self._quotas.has_own(principal):
                self._passed.add(principal)
            else:
                beyond[principal] = overflow_key(principal)
        return beyond

    def _settle(self) -> None:
        """Count the new principals among those that passed without a check."""
        if not self._is_settled:
            passed = self._passed - NEVER_ENFORCED
            self._left -= len(passed) - int(self._tracked.holds(passed).sum())
            self._unchecked, self._is_settled = 0, True


def overflow_key(principal: str) -> str:
    """Return the overflow entry of a principal.

    Examples:
        >>> overflow_key("User:alice")
        'overflow-38'
    """
    return OVERFLOW_PRINCIPALS[zlib.crc32(principal.encode()) % OVERFLOW_ENTRIES]

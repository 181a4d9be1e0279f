"""Keys principals beyond `max_principals` to a few shared overflow entries, before the shuffle.

Each principal in the state costs memory and about a millisecond per batch with events of it, which forged principals
must not exhaust. Principals with a quota of their own are exempt.
"""

import zlib
from collections.abc import Sequence

from quota.limits import Quotas
from quota.principals import NEVER_ENFORCED, OVERFLOW_ENTRIES, OVERFLOW_PRINCIPALS
from streaming.batch.tasks import TaskBatch
from streaming.batch.tracked_principals import TrackedPrincipals

NO_QUOTAS = Quotas()


class Gate:
    """Decides within one task which principals are tracked. Not thread-safe."""

    def __init__(self, tracked: TrackedPrincipals, share: int, quotas: Quotas = NO_QUOTAS) -> None:
        """Create the gate of a task.

        Args:
            tracked: The principals tracked before this batch.
            share: How many untracked principals the task may admit.
            quotas: A principal with a quota of its own always passes.
        """
        self._tracked, self._quotas = tracked, quotas
        self._left = share
        self._unchecked = share
        self._is_settled = False
        self._passed: set[str] = set(NEVER_ENFORCED)

    @classmethod
    def of(cls, batch: TaskBatch, max_principals: int) -> "Gate":
        """Return the gate of the running task: the room left is divided evenly among the topic's partitions.

        Args:
            batch: The task's batch.
            max_principals: Most principals in the state, but for those with a quota of their own and the overflow
                entries.
        """
        tracked = batch.tracked_principals()
        return cls(tracked, max(0, max_principals - len(tracked)) // max(1, batch.partitions()), batch.quotas())

    def keys(self, principals: Sequence[str]) -> dict[str, str]:
        """Return the overflow entry of each principal that is not to be tracked; others are left out.

        Args:
            principals: Distinct, in the order of their first events: the first ones are tracked.
        """
        unseen = [principal for principal in principals if principal not in self._passed]
        if len(unseen) <= self._unchecked:
            # Even if all of them are new, there is room: nearly always so, and nothing is hashed.
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
        """Count those that passed unchecked and are new."""
        if not self._is_settled:
            passed = self._passed - NEVER_ENFORCED
            self._left -= len(passed) - int(self._tracked.holds(passed).sum())
            self._unchecked, self._is_settled = 0, True


def overflow_key(principal: str) -> str:
    """Return the entry that a principal is reported under while it can't be tracked.

    Examples:
        >>> overflow_key("User:alice")
        'overflow-38'
    """
    return OVERFLOW_PRINCIPALS[zlib.crc32(principal.encode()) % OVERFLOW_ENTRIES]

"""Events of one principal, and its ledger, which is stored and read back between batches."""

from collections.abc import Iterable
from dataclasses import dataclass

from quota.decision import Client
from quota.limits import Limit
from state.events import CHARGED, Deployment, Events, Outcome
from state.ledger import Ledger


def events_at(at_ms: int, pids: Iterable[int], client: Client = ("app", ""), kind: int = CHARGED) -> Events:
    """Return an event of each PID, all of one moment, client and kind."""
    produced = list(pids)
    size = len(produced)
    return Events(produced, [at_ms] * size, [client] * size, [kind] * size)


@dataclass
class Principal:
    """A principal; times count from `start_ms`."""

    deployment: Deployment
    start_ms: int
    limit: Limit
    stored: bytes | None = None

    def takes(self, batch: Events, limit: Limit | None = None) -> Outcome:
        outcome = Ledger("User:mallory", self.deployment, self.stored).process(batch, limit or self.limit)
        self.stored = outcome.content
        return outcome

    def produces(
        self,
        pids: Iterable[int],
        at_ms: int,
        limit: Limit | None = None,
        client: str = "app",
        kind: int = CHARGED,
        address: str = "",
    ) -> Outcome:
        return self.takes(events_at(self.start_ms + at_ms, pids, (client, address), kind), limit)


def admitted(outcome: Outcome) -> int:
    return sum(row.admitted_pids for row in outcome.metrics)


def refused(outcome: Outcome) -> int:
    return sum(row.refused_pids for row in outcome.metrics)


def actions(outcome: Outcome) -> list[str]:
    return [decision.action for decision in outcome.decisions]

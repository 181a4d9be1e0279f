"""Finds the leases of running enforcers, for a dry run: it reads the table and the lease topic, and writes nothing."""

from collections.abc import Callable, Mapping, Sequence

from broker.enforcement.model import EnforcementRecord, LeaseRecord, ReleaseOrder, Target, open_leases
from broker.enforcement.store.lease_topic import LeaseTopic
from broker.errors import BrokerError
from broker.kafka.topics import require_topic
from tables.errors import TableError, TableNotFoundError
from wire.topics import ENFORCER_TOPIC


def kept_leases(settings: Mapping[str, str]) -> list[LeaseRecord | ReleaseOrder]:
    """Return the records of the lease topic, without creating it."""
    # Ask before creating a consumer, which would make brokers create their topic of offsets.
    require_topic(settings, ENFORCER_TOPIC)
    with LeaseTopic(settings) as kept:
        return kept.read(again=True)


def leases_of_others(
    kept: Callable[[], Sequence[EnforcementRecord]], logged: Callable[[], Sequence[EnforcementRecord]]
) -> frozenset[Target] | None:
    """Return the targets of open leases; None if the lease topic or the table can't be read.

    `kept` reads the lease topic, `logged` the table; a missing table has no rows.
    """
    try:
        found = frozenset(open_leases(kept()))
        return found | frozenset(open_leases(logged()))
    except TableNotFoundError:
        return found
    except (BrokerError, TableError):
        return None

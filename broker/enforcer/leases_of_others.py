"""Finds the leases of running enforcers, for a dry run: it reads the table and the lease topic, and writes nothing."""

from collections.abc import Callable, Mapping, Sequence

from broker.cluster.quota_entity import QuotaEntity
from broker.cluster.topics import require_topic
from broker.enforcer.lease_topic import LeaseTopic
from broker.errors import BrokerError
from broker.leases.lease_rules import Action, open_leases
from tables.errors import TableError, TableNotFoundError
from wire.topics import ENFORCER_TOPIC


def kept_leases(settings: Mapping[str, str]) -> list[Action]:
    """Return what the lease topic holds.

    Args:
        settings: confluent-kafka settings of a user with READ on the topic.

    Raises:
        BrokerError: If it can't be read, or there is none: it is not created.
    """
    # Asked before there is a consumer, which would make brokers create their topic of offsets.
    require_topic(settings, ENFORCER_TOPIC)
    with LeaseTopic(settings) as kept:
        return kept.read(again=True)


def leases_of_others(
    kept: Callable[[], Sequence[Action]], logged: Callable[[], Sequence[Action]]
) -> frozenset[QuotaEntity] | None:
    """Return the entities of open leases; None if the lease topic or the table can't be read.

    Args:
        kept: Reads the lease topic.
        logged: Reads the table; one that is missing has no rows.
    """
    try:
        found = frozenset(open_leases(kept()))
        return found | frozenset(open_leases(logged()))
    except TableNotFoundError:
        return found
    except (BrokerError, TableError):
        return None

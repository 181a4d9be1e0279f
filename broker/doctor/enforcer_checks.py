"""Checks that an enforcer runs, and that leases end."""

import time
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import KafkaException

from broker.doctor.findings import Finding, ok, warning, wrong
from broker.enforcement.model import Lease
from broker.errors import RequestNotAllowedError
from broker.kafka.errors import NO_COORDINATOR_YET, name_of, reason_of, unreachable
from broker.kafka.roles import OUR_GROUPS
from broker.kafka.topics import DEFAULT_TIMEOUT_S, admin_client
from wire.topics import ENFORCER_TOPIC

LATE_MS = 30_000
"""A lease that is still open this long after its end is overdue. An enforcer ends leases within a second."""
_START = "pid-quota enforce --apply --tables …"
_RELEASE = "pid-quota enforce --release-all --tables …"

_RETRY_S = 0.2


def enforcers(settings: Mapping[str, str], timeout_s: float = DEFAULT_TIMEOUT_S) -> list[str]:
    """Return the hosts of the running enforcers, including standbys.

    In a new cluster, wait up to about `timeout_s` for the topic `__consumer_offsets`.
    """
    admin, give_up_at = admin_client(settings), time.monotonic() + timeout_s
    while True:
        asked = admin.describe_consumer_groups([ENFORCER_TOPIC], request_timeout=timeout_s)
        try:
            return sorted(member.host.lstrip("/") for member in asked[ENFORCER_TOPIC].result().members)
        except KafkaException as error:
            if name_of(error) == "GROUP_ID_NOT_FOUND":
                return []
            if name_of(error) == "GROUP_AUTHORIZATION_FAILED":
                msg = f"this user may not see group {ENFORCER_TOPIC}: grant READ on groups {OUR_GROUPS}*"
                raise RequestNotAllowedError(msg) from error
            if name_of(error) not in NO_COORDINATOR_YET or time.monotonic() > give_up_at:
                raise unreachable(settings["bootstrap.servers"], f"{name_of(error)}: {reason_of(error)}") from error
        time.sleep(_RETRY_S)


def check_enforcer(
    hosts: Sequence[str], leases: Sequence[Lease], now_ms: int, *, has_topic: bool = True
) -> Iterator[Finding]:
    """Check that an enforcer runs and ends leases. `has_topic` tells whether the lease topic exists."""
    late = [lease for lease in leases if now_ms - lease.until_ms > LATE_MS]
    if late:
        named = ", ".join(f"{lease.principal} ({lease.target})" for lease in late[:5])
        yield wrong(
            "leases", f"{len(late)} should have ended: {named}", _RELEASE if hosts else f"{_START}, or {_RELEASE}"
        )
    elif not has_topic:
        text = f"unknown: topic {ENFORCER_TOPIC} is missing. If it was deleted, the tables have its leases"
        yield wrong("leases", text, _RELEASE)
    else:
        yield ok("leases", f"{len(leases)} in force, none overdue")
    if hosts:
        yield ok("enforcer", f"running on {', '.join(hosts)}")
    elif leases:
        text = f"none runs to end the leases in force: {len(leases)}"
        yield wrong("enforcer", text, f"{_START}, or {_RELEASE}")
    else:
        yield warning("enforcer", "none runs, and no open lease is known", _START)

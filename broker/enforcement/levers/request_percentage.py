"""The lever `request_percentage`: slows a few client ids of a user, or the whole user.

Brokers answer a request, then stop reading from the connection for up to `quota.window.size.seconds`.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from broker.enforcement.levers.base import NEARLY_ALL, Stray, TargetLimits, Targets
from broker.enforcement.levers.canary import Canary
from broker.enforcement.levers.client_quota import ClientQuotaLever, QuotaStore
from broker.enforcement.model import CANARY, Clocks, Lease, Target, ThrottleDecision, user_of
from broker.enforcement.notices import Notice
from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaChange, QuotaEntity
from quota.decision import OTHER_CLIENTS

VALUE = 0.01
"""Percentage of a request handler thread's time. Practically every request exceeds this value."""

_CANARY = QuotaEntity(CANARY)
_CANARY_VALUE = 100.0
MAX_NARROW_CLIENT_IDS = 5
MAX_CLIENT_ID_CHARS = 256
"""The plugin truncates longer client ids. A quota on a truncated id matches no client."""

# Default client ids of client libraries, which any client may use.
_LIBRARY_DEFAULTS = re.compile(
    r"|rdkafka|sarama|default|unknown|kafka|kafkajs|kafka-clients?|kgo|client|producer|"
    r"(producer|console-producer|kafka-producer|connector-producer)-?\d*|"
    r"(confluent-kafka|kafka-python|librdkafka|aiokafka|kafka-go|segmentio|franz-go|ruby-kafka|node-rdkafka)\b.*",
    re.IGNORECASE,
)


def is_library_default(client_id: str) -> bool:
    """Whether a client id is the default of a client library.

    Examples:
        >>> [is_library_default(name) for name in ("rdkafka", "producer-1", "confluent-kafka-python-2.1", "")]
        [True, True, True, True]
        >>> is_library_default("orders-importer")
        False
    """
    return _LIBRARY_DEFAULTS.fullmatch(client_id) is not None


def user_targets(decision: ThrottleDecision, limits: TargetLimits) -> Targets:
    """Choose a few client ids of the user, or the whole user.

    Decisions do not contain the client ids of healthy producers. These are assumed to be libraries' defaults, and the
    client ids that the operator lists.
    """
    user = user_of(decision.principal)
    if decision.principal != f"User:{user}":
        return Targets((), f"a client quota would slow User:{user}, too")
    chosen, covered, total = _heaviest(decision.client_ids)
    why_not = _why_whole_user(chosen, limits)
    if why_not and limits.spare_user:
        return Targets((), f"known producers of {user} keep working ({why_not})")
    if why_not:
        return Targets((_target(user),), why_not)
    return Targets(
        tuple(_target(user, name) for name in chosen), f"{round(100 * covered / total)} % of its refused PIDs"
    )


def _target(user: str | None, client_id: str | None = None) -> Target:
    return Target("request_percentage", QuotaEntity(user, client_id))


def _heaviest(client_ids: Mapping[str, int]) -> tuple[list[str], int, int]:
    """Return the fewest client ids with nearly all refused PIDs, the number of their refused PIDs, and the total."""
    total, covered = sum(client_ids.values()), 0
    chosen: list[str] = []
    for client_id, refused in sorted(client_ids.items(), key=lambda item: (-item[1], item[0])):
        if covered >= NEARLY_ALL * total:
            break
        chosen.append(client_id)
        covered += refused
    return chosen, covered, total


def _why_whole_user(chosen: Sequence[str], limits: TargetLimits) -> str:
    if not limits.narrow:
        return "narrowing is off (--no-narrow)"
    if not chosen:
        return "no client ids are known"
    if len(chosen) > MAX_NARROW_CLIENT_IDS:
        return f"more than {MAX_NARROW_CLIENT_IDS} client ids make up 95 % of the refused PIDs"
    for client_id in chosen:
        if client_id == OTHER_CLIENTS or is_library_default(client_id):
            return f"client id {client_id!r} is a default that any client may use"
        if len(client_id) >= MAX_CLIENT_ID_CHARS:
            return f"a client id of {len(client_id)} characters may be truncated"
        if client_id in limits.shared_client_ids:
            return f"client id {client_id!r} is shared with healthy producers (--shared-client-id)"
    if len({*chosen, *limits.written}) > MAX_NARROW_CLIENT_IDS:
        return f"it has used more than {MAX_NARROW_CLIENT_IDS} client ids over time"
    return ""


class RequestPercentage(ClientQuotaLever):
    """A lever that slows client ids or users."""

    suffices = True
    targets = staticmethod(user_targets)

    def __init__(self, quotas: QuotaStore, clocks: Clocks, notify: Callable[[Notice], None]) -> None:
        super().__init__(quotas, REQUEST_PERCENTAGE, VALUE)
        self.canary = self._canary = Canary(self, "client quotas of users", clocks, notify)

    def unavailable_reason(self) -> str:
        """Return why a reconciler makes the lever useless, or an empty text."""
        return self._canary.reconciler_reason()

    def strays(self, known: Collection[Lease], now_ms: int) -> list[Stray]:
        """Find quotas with this lever's value that belong to no lease, and a leftover canary quota (`CANARY`)."""
        found = super().strays(known, now_ms)
        if not self._canary.is_watched and self.has_canary():
            target, remove = Target(self.name, _CANARY), partial(self.write_canary, is_set=False)
            found.append(Stray(target, "a canary was left behind", "", remove))
        return found

    def has_canary(self) -> bool:
        """Whether the canary has a client quota."""
        return REQUEST_PERCENTAGE in self._quotas.describe(_CANARY)

    def write_canary(self, *, is_set: bool) -> None:
        """Set or remove the canary's client quota."""
        change = QuotaChange(_CANARY, REQUEST_PERCENTAGE, _CANARY_VALUE if is_set else None)
        error = self._quotas.alter([change])[_CANARY]
        if error is not None:
            raise error

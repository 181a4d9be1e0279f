"""Reads and alters Kafka's client quotas through kafka-python, because confluent-kafka has no such calls."""

import socket
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from broker.errors import BrokerError, BrokerUnreachableError
from broker.kafka.client import KafkaAdmin
from broker.kafka.errors import Purpose
from broker.kafka.quota_entity import QuotaChange, QuotaEntity

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_Component = tuple[str, int, str | None]
_PURPOSE = Purpose("a client quota", "ALTER_CONFIGS and DESCRIBE_CONFIGS", "check that this version of Kafka has it")
_TIMEOUT_MS = 10_000
_ADDRESSES_EVERY_S = 30.0


class ClientQuotas(KafkaAdmin):
    """The client quotas of a cluster."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings, _PURPOSE, _TIMEOUT_MS, reconnects=True)
        self._addresses: set[str] = set()
        self._addresses_until_s = 0.0

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the quotas of exactly this entity, by key."""
        components: list[_Component] = [(kind, _EXACT, name) for kind, name in entity.parts()]
        return self._describe(components, strict=True).get(entity, {})

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """Return the value that applies to an entity without its own value: the user's value, or a default.

        For a whole user, return the tightest of the values for the user's `client_ids`.
        """
        found: dict[tuple[_Component, ...], float | None] = {}

        def value(components: tuple[_Component, ...]) -> float | None:
            if components not in found:
                answer = self.ask(DescribeClientQuotasRequest(components=list(components), strict=True))
                self.require_no_error(answer)
                values = {each.key: each.value for entry in answer.entries or () for each in entry.values}
                found[components] = values.get(key)
            return found[components]

        chains = [
            _wider(entity, client_id) for client_id in ([entity.client_id] if entity.client_id else [*client_ids, None])
        ]
        holding = [next((each for each in map(value, chain) if each is not None), None) for chain in chains]
        return min((each for each in holding if each is not None), default=None)

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return all quotas except defaults."""
        return self._describe([], strict=False)

    def users_with_default_clients(self, key: str) -> list[str]:
        """Return the users with a default value for client ids, which takes precedence over the user's value."""
        components: list[_Component] = [("user", _ANY, None), ("client-id", _DEFAULT, None)]
        answer = self.ask(DescribeClientQuotasRequest(components=components, strict=True))
        self.require_no_error(answer)
        return sorted(
            part.entity_name
            for entry in answer.entries or ()
            for part in entry.entity
            if part.entity_type == "user" and part.entity_name and any(each.key == key for each in entry.values)
        )

    def own_addresses(self) -> set[str]:
        """Return the addresses of the brokers and of this host, refreshed every 30 s."""
        if time.monotonic() >= self._addresses_until_s:
            hosts = {*self.brokers(up_only=False).values(), "localhost", socket.gethostname()}
            self._addresses = {address for host in hosts for address in _addresses(host)}
            self._addresses_until_s = time.monotonic() + _ADDRESSES_EVERY_S
        return self._addresses

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, BrokerError | None]:
        """Set or remove values in one request."""
        entries = [
            (change.entity.parts(), [(change.key, change.value or 0.0, change.value is None)]) for change in changes
        ]
        try:
            answer = self.ask(AlterClientQuotasRequest(entries=entries, validate_only=False))
        except BrokerError as error:
            return {change.entity: error for change in changes}
        found = {
            _entity(entry.entity): _PURPOSE.from_code(entry.error_code, entry.error_message) for entry in answer.entries
        }
        missing = BrokerUnreachableError("Kafka's answer does not mention the entity: retrying")
        return {change.entity: found.get(change.entity, missing) for change in changes}

    def _describe(self, components: list[_Component], *, strict: bool) -> dict[QuotaEntity, dict[str, float]]:
        answer = self.ask(DescribeClientQuotasRequest(components=components, strict=strict))
        self.require_no_error(answer)
        return {
            _entity(entry.entity): {value.key: value.value for value in entry.values}
            for entry in answer.entries or ()
            if all(part.entity_name is not None for part in entry.entity)
        }


def _wider(entity: QuotaEntity, client_id: str | None) -> list[tuple[_Component, ...]]:
    """Return the entities at which Kafka looks for a quota after `entity`, in order."""
    if entity.user is None:
        return [(("ip", _DEFAULT, None),)]
    mine: _Component = ("user", _EXACT, entity.user)
    users: _Component = ("user", _DEFAULT, None)
    clients: list[_Component] = [("client-id", _DEFAULT, None)]
    own = [(mine, clients[0]), (mine,)] if entity.client_id is not None else []
    if client_id is not None:
        clients.insert(0, ("client-id", _EXACT, client_id))
    return [*own, *((users, client) for client in clients), (users,), *((client,) for client in clients)]


def _addresses(host: str) -> set[str]:
    try:
        return {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        # This host can't resolve the name, so the address of that broker is unknown.
        return set()


def _entity(parts: Sequence[Any]) -> QuotaEntity:
    names = {part.entity_type: part.entity_name for part in parts}
    return QuotaEntity(names.get("user"), names.get("client-id"), names.get("ip"))

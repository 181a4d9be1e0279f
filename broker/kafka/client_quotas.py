"""Reads and alters Kafka's client quotas, which confluent-kafka has no calls for.

kafka-python knows the two requests of the protocol; its admin client sends them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from broker.closing import Closing
from broker.errors import ClientQuotaError, ClientQuotaUnavailableError
from broker.kafka.lazy_admin import TIMEOUT_MS, LazyAdmin, Subject
from broker.kafka.quota_entity import QuotaChange, QuotaEntity

_EXACT, _DEFAULT = 0, 1
_Component = tuple[str, int, str | None]
_SUBJECT = Subject("a client quota", "ALTER_CONFIGS and DESCRIBE_CONFIGS", "check that this version of Kafka has it")


class ClientQuotas(Closing):
    """Client quotas of a cluster, over one connection that is opened when first needed and again after errors.

    Args:
        settings: Of a kafka-python client, with `bootstrap_servers`.
        timeout_ms: Until an answer is given up.
    """

    def __init__(self, settings: Mapping[str, Any], timeout_ms: int = TIMEOUT_MS) -> None:
        self._admin = LazyAdmin(settings, _SUBJECT, timeout_ms)

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._admin.close()

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        """Return the quotas set for exactly this entity: value by key, empty if none are.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        components: list[_Component] = [(kind, _EXACT, name) for kind, name in entity.parts()]
        return self._describe(components, strict=True).get(entity, {})

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """Return the value that an entity inherits where it has none of its own: its user's, or a default.

        A value set on the entity overrides the inherited one, and so may loosen it.

        Args:
            entity: Whose quota.
            key: Such as `request_percentage`.
            client_ids: For a whole user: its client ids; the tightest value counts.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        found: dict[tuple[_Component, ...], float | None] = {}

        def value(components: tuple[_Component, ...]) -> float | None:
            if components not in found:
                answer = self._admin.ask(DescribeClientQuotasRequest(components=list(components), strict=True))
                self._admin.require_no_error(answer)
                values = {each.key: each.value for entry in answer.entries or () for each in entry.values}
                found[components] = values.get(key)
            return found[components]

        chains = [
            _wider(entity, client_id) for client_id in ([entity.client_id] if entity.client_id else [*client_ids, None])
        ]
        holding = [next((each for each in map(value, chain) if each is not None), None) for chain in chains]
        return min((each for each in holding if each is not None), default=None)

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        """Return all quotas of named users, their client ids, and ips; defaults are left out.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        return self._describe([], strict=False)

    def broker_hosts(self) -> list[str]:
        """Return the advertised hosts of the brokers; raises as `describe`."""
        cluster = self._admin.do(lambda client: client.describe_cluster())
        return [str(each["host"]) for each in cluster["brokers"]]

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Set or remove values in one request.

        Returns:
            The error of each entity, None where it succeeded. Never raises for a single entity.
        """
        entries = [
            (change.entity.parts(), [(change.key, change.value or 0.0, change.value is None)]) for change in changes
        ]
        try:
            answer = self._admin.ask(AlterClientQuotasRequest(entries=entries, validate_only=False))
        except ClientQuotaError as error:
            return {change.entity: error for change in changes}
        found = {
            _entity(entry.entity): self._admin.error(entry.error_code, entry.error_message) for entry in answer.entries
        }
        missing = ClientQuotaUnavailableError("Kafka's answer does not mention the entity: retrying")
        return {change.entity: found.get(change.entity, missing) for change in changes}

    def _describe(self, components: list[_Component], *, strict: bool) -> dict[QuotaEntity, dict[str, float]]:
        answer = self._admin.ask(DescribeClientQuotasRequest(components=components, strict=strict))
        self._admin.require_no_error(answer)
        return {
            _entity(entry.entity): {value.key: value.value for value in entry.values}
            for entry in answer.entries or ()
            if all(part.entity_name is not None for part in entry.entity)
        }


def _wider(entity: QuotaEntity, client_id: str | None) -> list[tuple[_Component, ...]]:
    """Return the entities Kafka looks up, in order, if this one has no quota; `client_id` of the user's client."""
    if entity.user is None:
        return [(("ip", _DEFAULT, None),)]
    mine: _Component = ("user", _EXACT, entity.user)
    users: _Component = ("user", _DEFAULT, None)
    clients: list[_Component] = [("client-id", _DEFAULT, None)]
    own = [(mine, clients[0]), (mine,)] if entity.client_id is not None else []
    if client_id is not None:
        clients.insert(0, ("client-id", _EXACT, client_id))
    return [*own, *((users, client) for client in clients), (users,), *((client,) for client in clients)]


def _entity(parts: Sequence[Any]) -> QuotaEntity:
    names = {part.entity_type: part.entity_name for part in parts}
    return QuotaEntity(names.get("user"), names.get("client-id"), names.get("ip"))

"""Reads and alters Kafka's client quotas, which confluent-kafka has no calls for.

kafka-python knows the two requests of the protocol; its admin client sends them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import BrokerResponseError, ClusterAuthorizationFailedError, KafkaError, for_code
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from broker.closing import Closing
from broker.cluster.quota_entity import QuotaEntity
from broker.cluster.raw_admin import RawAdmin
from broker.errors import ClientQuotaError, ClientQuotaRefusedError, ClientQuotaUnavailableError

REQUEST_PERCENTAGE = "request_percentage"
CONNECTION_CREATION_RATE = "connection_creation_rate"

_EXACT, _DEFAULT = 0, 1
_Component = tuple[str, int, str | None]
_TIMEOUT_MS = 10_000
_HINT = "the enforcer's user needs ALTER_CONFIGS and DESCRIBE_CONFIGS on the cluster"


@dataclass(frozen=True)
class QuotaChange:
    """One value to set or remove.

    Attributes:
        entity: Whose quota.
        key: Such as `request_percentage`.
        value: The new value; None removes it.
    """

    entity: QuotaEntity
    key: str
    value: float | None


class ClientQuotas(Closing):
    """Client quotas of a cluster, over one connection that is opened when first needed and again after errors.

    Args:
        settings: Of a kafka-python client, with `bootstrap_servers`.
        timeout_ms: Until an answer is given up.
    """

    def __init__(self, settings: Mapping[str, Any], timeout_ms: int = _TIMEOUT_MS) -> None:
        self._settings = {**settings, "request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": timeout_ms}
        self._admin: RawAdmin | None = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

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
                answer = self._ask(DescribeClientQuotasRequest(components=list(components), strict=True))
                _require_no_error(answer)
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

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        """Set or remove values in one request.

        Returns:
            The error of each entity, None where it succeeded. Never raises for a single entity.
        """
        entries = [
            (change.entity.parts(), [(change.key, change.value or 0.0, change.value is None)]) for change in changes
        ]
        try:
            answer = self._ask(AlterClientQuotasRequest(entries=entries, validate_only=False))
        except ClientQuotaError as error:
            return {change.entity: error for change in changes}
        found = {_entity(entry.entity): _error(entry.error_code, entry.error_message) for entry in answer.entries}
        missing = ClientQuotaUnavailableError("Kafka's answer does not mention the entity: retrying")
        return {change.entity: found.get(change.entity, missing) for change in changes}

    def _describe(self, components: list[_Component], *, strict: bool) -> dict[QuotaEntity, dict[str, float]]:
        answer = self._ask(DescribeClientQuotasRequest(components=components, strict=strict))
        _require_no_error(answer)
        return {
            _entity(entry.entity): {value.key: value.value for value in entry.values}
            for entry in answer.entries or ()
            if all(part.entity_name is not None for part in entry.entity)
        }

    def _ask(self, request: Any) -> Any:
        try:
            if self._admin is None:
                self._admin = RawAdmin(**self._settings)
            return self._admin.ask(request)
        except (KafkaError, OSError) as error:
            # The next request reconnects: addresses of brokers may have changed.
            self.close()
            if isinstance(error, ClusterAuthorizationFailedError):
                raise _not_allowed(str(error)) from error
            if isinstance(error, BrokerResponseError) and not error.retriable:
                raise _refused(str(error)) from error
            servers = self._settings["bootstrap_servers"]
            servers = servers if isinstance(servers, str) else ",".join(servers)
            msg = f"no broker answers at {servers} ({error}): check the address and the security settings"
            raise ClientQuotaUnavailableError(msg) from error


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


def _require_no_error(answer: Any) -> None:
    error = _error(answer.error_code, answer.error_message)
    if error is not None:
        raise error


def _entity(parts: Sequence[Any]) -> QuotaEntity:
    names = {part.entity_type: part.entity_name for part in parts}
    return QuotaEntity(names.get("user"), names.get("client-id"), names.get("ip"))


def _error(code: int, message: str | None) -> ClientQuotaError | None:
    if not code:
        return None
    kind = for_code(code)
    reason = f"{kind.__name__}: {message}" if message else kind.__name__
    if kind is ClusterAuthorizationFailedError:
        return _not_allowed(reason)
    if kind.retriable:
        msg = f"Kafka can't read or change the client quota now ({reason}): retrying"
        return ClientQuotaUnavailableError(msg)
    return _refused(reason)


def _not_allowed(reason: str) -> ClientQuotaUnavailableError:
    """Retriable: an admin may grant the right."""
    return ClientQuotaUnavailableError(f"not authorised to read or change client quotas ({reason}): {_HINT}")


def _refused(reason: str) -> ClientQuotaRefusedError:
    return ClientQuotaRefusedError(f"Kafka refused a client quota ({reason}): check that this version of Kafka has it")

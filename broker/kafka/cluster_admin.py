"""Admin requests that confluent-kafka lacks or parses too strictly: settings, producers of a partition, ACLs."""

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, SecurityDisabledError, for_code
from kafka.protocol.admin import DescribeAclsRequest
from kafka.structs import TopicPartition

from broker.closing import Closing
from broker.errors import BrokerUnreachableError, ClusterRequestError
from broker.kafka.acl import Acl, AclResource, acl_of, allows_without_acl
from broker.kafka.live_brokers import live_brokers
from broker.kafka.raw_admin import RawAdmin

_TIMEOUT_MS = 15_000
_ATTEMPTS = 6
_RETRY_S = 1.0
_DONE = "OK"
_ANY = 1


@dataclass(frozen=True)
class ActiveProducer:
    """An entry of a partition's producer state.

    Attributes:
        topic: of the partition.
        partition: its number.
        producer_id: its producer id.
        producer_epoch: its epoch.
        last_timestamp_ms: of its last batch, as the producer stamped it.
        in_transaction: it has an open transaction on this partition.
        broker_id: the leader that reported it.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_timestamp_ms: int
    in_transaction: bool
    broker_id: int


class ClusterAdmin(Closing):
    """Connects to each broker when it is first asked."""

    def __init__(self, settings: Mapping[str, object], timeout_ms: int = _TIMEOUT_MS) -> None:
        """Connect.

        Args:
            settings: of kafka-python, see `KafkaConfig.kafka_python`.
            timeout_ms: request timeout; a broker that has not answered for 15 s at the first connection never will.

        Raises:
            BrokerUnreachableError: no broker answers.
        """
        self._servers = ",".join(cast("list[str]", settings["bootstrap_servers"]))
        first_ms = min(timeout_ms, _TIMEOUT_MS)
        limits = {"request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": first_ms}
        self._admin: RawAdmin | None = None
        try:
            _probe(self._servers, first_ms / 1000)
            self._admin = RawAdmin(**{"client_id": "pid-quota", **settings, **limits})
        except (KafkaError, OSError) as error:
            raise self._unreachable(error) from error

    def close(self) -> None:
        """Close the connections."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def live_brokers(self) -> list[int]:
        """Ids of the brokers that are up, sorted.

        Raises:
            BrokerUnreachableError: no broker answers.
        """
        return live_brokers(with_retries(lambda: self._ask("describe_cluster")))

    def broker_setting(self, broker_id: int, name: str) -> str:
        """Value of a setting that is in force on a broker; empty if there is none.

        Raises:
            BrokerUnreachableError: the broker does not answer.
            ClusterRequestError: it refuses; DESCRIBE_CONFIGS on the cluster is needed.
        """
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
        found = self._ask("describe_configs", [resource], config_filter="all")["broker"][str(broker_id)]
        if name not in found:
            msg = f"broker {broker_id} does not tell {name}: grant DESCRIBE_CONFIGS on the cluster"
            raise ClusterRequestError(msg)
        return found[name]["value"] or ""

    def set_broker_setting(self, broker_id: int, name: str, value: str) -> None:
        """Change a dynamic setting of one broker.

        Raises:
            BrokerUnreachableError: the broker does not answer.
            ClusterRequestError: it refuses; quotes its words.
        """
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id), {name: (AlterConfigOp.SET, value)})
        answer = self._ask("alter_configs", [resource], raise_on_unknown=False, incremental=True)
        outcome = answer["broker"][str(broker_id)]
        if outcome != _DONE:
            msg = (
                f"broker {broker_id} did not set {name}={value} ({outcome}): grant ALTER_CONFIGS on the cluster, and "
                f"check that the broker was started with the jar on its class path"
            )
            raise ClusterRequestError(msg)

    def partitions_by_leader(self, *, with_leaderless: bool = False) -> dict[int, list[tuple[str, int]]]:
        """Partitions (topic, number) by their leader.

        Args:
            with_leaderless: include those without one, as led by -1.

        Raises:
            BrokerUnreachableError: no broker answers.
        """
        led: dict[int, list[tuple[str, int]]] = {}
        for topic in self._ask("describe_topics"):
            for about in topic["partitions"]:
                if about["leader_id"] >= 0 or with_leaderless:
                    led.setdefault(about["leader_id"], []).append((topic["name"], about["partition_index"]))
        return led

    def active_producers(self, broker_id: int, partitions: Iterable[tuple[str, int]]) -> list[ActiveProducer]:
        """Producers that a broker remembers for partitions it leads.

        Raises:
            BrokerUnreachableError: the broker does not answer.
            ClusterRequestError: it refuses: READ on the topic is missing, or the leader has moved.
        """
        wanted = [TopicPartition(topic, number) for topic, number in partitions]
        return [
            ActiveProducer(
                topic=where.topic,
                partition=where.partition,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_timestamp_ms=producer.last_timestamp,
                in_transaction=producer.current_transaction_start_offset >= 0,
                broker_id=broker_id,
            )
            for where, state in self._ask("describe_producers", wanted, broker_id).items()
            for producer in state.active_producers
        ]

    def transactional_ids(self) -> dict[int, str]:
        """Transactional ids by their current producer id.

        Raises:
            BrokerUnreachableError: a broker does not answer.
            ClusterRequestError: it refuses; DESCRIBE on the transactional ids is needed.
        """
        listed = self._ask("list_transactions")
        return {each.producer_id: each.transactional_id for on_broker in listed.values() for each in on_broker}

    def acls(self) -> frozenset[Acl]:
        """All ACLs on topics and transactional ids.

        Raises:
            BrokerUnreachableError: no broker answers.
            ClusterRequestError: DESCRIBE on the cluster is missing, or there is no authorizer.
        """
        return frozenset(acl for resource in AclResource for acl in self._acls(resource))

    def allows_without_acl(self) -> bool | None:
        """Whether everybody may use what no ACL names; None if the brokers do not say so, disagree, or refuse to.

        Raises:
            BrokerUnreachableError: a broker does not answer.
        """
        try:
            said = {allows_without_acl(self._settings(number)) for number in self.live_brokers()}
        except ClusterRequestError:
            return None
        return said.pop() if len(said) == 1 else None

    def _acls(self, resource: AclResource) -> list[Acl]:
        request = DescribeAclsRequest(
            resource_type_filter=resource,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        answer = self._ask("ask", request)
        if answer.error_code:
            error = for_code(answer.error_code)
            is_off = error is SecurityDisabledError
            remedy = "start them with an authorizer" if is_off else "grant this user DESCRIBE on the cluster"
            msg = f"the brokers do not show their ACLs ({error.__name__}): {remedy}"
            raise ClusterRequestError(msg)
        return [acl_of(found, entry) for found in answer.resources for entry in found.acls]

    def _settings(self, broker_id: int) -> Mapping[str, Mapping[str, Any]]:
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
        found = self._ask("describe_configs", [resource], config_filter="all")
        return cast("Mapping[str, Mapping[str, Any]]", found["broker"][str(broker_id)])

    def _ask(self, call: str, *arguments: object, **more: object) -> Any:
        if self._admin is None:
            msg = "this admin client is closed: create a new one"
            raise ClusterRequestError(msg)
        try:
            return getattr(self._admin, call)(*arguments, **more)
        except OSError as error:
            raise self._unreachable(error) from error
        except KafkaError as error:
            if getattr(error, "errno", None) is None:
                raise self._unreachable(error) from error
            msg = f"the broker refused {call} ({type(error).__name__}: {error}): check this user's ACLs"
            raise ClusterRequestError(msg) from error

    def _unreachable(self, error: Exception) -> BrokerUnreachableError:
        return BrokerUnreachableError(
            f"no broker answers at {self._servers} ({type(error).__name__}: {error}): "
            f"check that it runs, the address and the security settings"
        )


def with_retries(ask: Callable[[], Any], wait: Callable[[float], None] = time.sleep) -> Any:
    """Retry for a few seconds: the client may pick a broker that has just died.

    Raises:
        BrokerUnreachableError: no broker answers.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return ask()
        except BrokerUnreachableError:
            wait(_RETRY_S)
    return ask()


def _probe(servers: str, timeout_s: float) -> None:
    """Fail fast if no server listens: kafka-python retries for ever and leaks a socket each time."""
    for index, server in enumerate(addresses := servers.split(","), start=1):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout_s):
                return
        except (OSError, ValueError) as error:
            if index == len(addresses):
                raise OSError(str(error)) from error

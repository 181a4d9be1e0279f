"""Reads the settings of each broker, as far as brokers show them."""

from collections.abc import Mapping

from kafka.admin import ConfigResource, ConfigResourceType

from broker.kafka.lazy_admin import LazyAdmin
from broker.kafka.live_brokers import live_brokers

AUTHORIZER = "authorizer.class.name"
"""Setting with the class of a broker's authorizer; empty without one."""


def broker_settings(admin: LazyAdmin) -> dict[int, Mapping[str, str | None]]:
    """Return the settings of each broker that is up, by broker id.

    The value is None where a broker hides it: that of a password, and of every setting that Kafka's own configuration
    does not define, such as an authorizer's.

    Raises:
        ClientQuotaRefusedError: If Kafka refuses the request.
        ClientQuotaUnavailableError: If no broker answers, or DESCRIBE_CONFIGS is missing.
    """
    cluster = admin.do(lambda client: client.describe_cluster())
    return {number: _settings(admin, number) for number in live_brokers(cluster)}


def _settings(admin: LazyAdmin, broker_id: int) -> Mapping[str, str | None]:
    resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
    found = admin.do(lambda client: client.describe_configs([resource], config_filter="all"))
    return {name: about.get("value") for name, about in found["broker"][str(broker_id)].items()}

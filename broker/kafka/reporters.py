"""Loads the plugin into running brokers, and unloads it, by the dynamic setting `metric.reporters` (KIP-226).

The jar must be on the broker's class path. The setting survives restarts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from broker.errors import BrokerError
from broker.kafka.client import KafkaAdmin, with_retries
from wire.plugin_reports import REPORTER_CLASS

SETTING = "metric.reporters"


@dataclass(frozen=True)
class ReportersChange:
    """Outcome for one broker. `problem` tells why nothing changed."""

    broker_id: int
    reporters: tuple[str, ...]
    is_changed: bool = False
    problem: str | None = None


def switch_plugin(admin: KafkaAdmin, *, on: bool, broker_ids: Sequence[int] | None = None) -> list[ReportersChange]:
    """Add the plugin to `metric.reporters` of brokers, or remove the plugin. Other reporters stay.

    By default, change all brokers that are up.
    """
    up = with_retries(admin.brokers)
    return [
        _switch(admin, broker, on=on)
        if broker in up
        else ReportersChange(broker, (), problem=f"it is not up (up: {', '.join(map(str, up))}): check the ids")
        for broker in (up if broker_ids is None else broker_ids)
    ]


def _switch(admin: KafkaAdmin, broker_id: int, *, on: bool) -> ReportersChange:
    try:
        value = admin.require_setting(broker_id, SETTING)["value"] or ""
        before = tuple(name.strip() for name in value.split(",") if name.strip())
        others = tuple(name for name in before if name != REPORTER_CLASS)
        wanted = (*others, REPORTER_CLASS) if on else others
        if wanted != before:
            admin.set_broker_setting(broker_id, SETTING, ",".join(wanted))
    except BrokerError as error:
        return ReportersChange(broker_id, (), problem=str(error))
    return ReportersChange(broker_id, wanted, wanted != before)

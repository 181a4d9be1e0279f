from typing import TYPE_CHECKING, cast

from broker.errors import ClusterRequestError
from broker.kafka.reporters import SETTING, ReportersChange, switch_plugin
from wire.plugin_reports import REPORTER_CLASS

if TYPE_CHECKING:
    from broker.kafka.client import KafkaAdmin

JMX = "org.apache.kafka.common.metrics.JmxReporter"


class Brokers:
    """A fake of `KafkaAdmin`: `metric.reporters` by broker."""

    def __init__(self, **reporters: str) -> None:
        self.reporters = {int(name.removeprefix("b")): value for name, value in reporters.items()}
        self.refusing: set[int] = set()

    def brokers(self) -> list[int]:
        return sorted(self.reporters)

    def require_setting(self, broker_id: int, name: str) -> dict[str, str]:
        assert name == SETTING
        return {"value": self.reporters[broker_id]}

    def set_broker_setting(self, broker_id: int, name: str, value: str) -> None:
        assert name == SETTING
        if broker_id in self.refusing:
            msg = "no"
            raise ClusterRequestError(msg)
        self.reporters[broker_id] = value

    def switch(self, *, on: bool, broker_ids: list[int] | None = None) -> list[ReportersChange]:
        return switch_plugin(cast("KafkaAdmin", self), on=on, broker_ids=broker_ids)


def test_a_broker_that_is_down_or_refuses_is_told_and_stops_no_other() -> None:
    brokers = Brokers(b1=JMX, b2=JMX, b3=JMX)
    brokers.refusing = {1}

    first, missing, second = brokers.switch(on=True, broker_ids=[1, 7, 2])

    assert first.problem == "no"
    assert missing.problem == "it is not up (up: 1, 2, 3): check the ids"
    assert second.reporters == (JMX, REPORTER_CLASS)
    assert brokers.reporters == {1: JMX, 2: f"{JMX},{REPORTER_CLASS}", 3: JMX}

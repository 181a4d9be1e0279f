from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from streaming.pipeline import CONSUMER_SETTINGS, StreamOptions, read_records
from streaming.triggers import AVAILABLE_NOW
from tests.kits.broker_kit import new_topic, produce


@pytest.mark.parametrize("setting", CONSUMER_SETTINGS)
def test_a_consumer_setting_of_the_operator_goes_before_ours(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path, setting: str
) -> None:
    topic = new_topic(broker, "reading")
    produce(broker.admin_config(), topic)
    options = StreamOptions(
        topic=topic,
        kafka_options={"kafka.bootstrap.servers": broker.admin_servers} | {setting: "-1"},
        tables=str(tmp_path / "tables"),
        checkpoint=str(tmp_path / "checkpoint"),
        trigger=AVAILABLE_NOW,
    )

    writer = read_records(spark, options).writeStream.format("noop").option("checkpointLocation", options.checkpoint)

    # Kafka's consumer refuses what is not allowed, so it was asked with this.
    with pytest.raises(StreamingQueryException, match=r"Invalid value -1 for configuration"):
        writer.trigger(availableNow=True).start().awaitTermination()

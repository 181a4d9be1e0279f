from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.local.local_broker import LocalBroker
from tests.kits.fault_kit import Stream, topic_of


@pytest.fixture(scope="session")
def topic(broker: LocalBroker) -> str:
    """A topic of 3,000 events, five batches."""
    return topic_of(broker, 3000)


@pytest.fixture(scope="session")
def undisturbed(
    spark: SparkSession, broker: LocalBroker, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> Stream:
    """A stream that has read that topic without any trouble."""
    stream = Stream(tmp_path_factory.mktemp("undisturbed"), broker.admin_servers, topic).prepared()
    stream.run(spark)
    return stream


@pytest.fixture
def stream(broker: LocalBroker, topic: str, tmp_path: Path) -> Stream:
    return Stream(tmp_path, broker.admin_servers, topic).prepared()

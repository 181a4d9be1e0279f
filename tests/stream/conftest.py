from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.jars.jar_sets import jars_folder, spark_jars
from streaming.session import stream_session
from tests.stream.stream_kit import Stream


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = stream_session(spark_jars(jars_folder()))
    yield session
    session.stop()


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_kit import Stream

from broker.jars.jar_sets import jars_folder, spark_jars
from streaming.session import stream_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = stream_session(spark_jars(jars_folder()))
    yield session
    session.stop()


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)

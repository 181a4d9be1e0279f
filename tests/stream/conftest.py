from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kits.stream_kit import Stream


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)

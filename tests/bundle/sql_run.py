"""Stands for the SQL warehouse beside the jobs: runs statements, and prints the rows of the last as JSON."""

import json
import sys

from pyspark.sql import SparkSession


def main(*statements: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    rows = []
    for statement in statements:
        rows = spark.sql(statement).collect()
    print(json.dumps([list(row) for row in rows], default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])

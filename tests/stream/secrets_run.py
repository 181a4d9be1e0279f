"""The stream as a program that says all it can: log level INFO, plans, progress. `test_attack_secrets.py` greps it."""

import json
import sys
from pathlib import Path

from broker.kafka.config import KafkaConfig
from jvm.jar_sets import jars_folder, spark_jars
from jvm.java import quick_options
from streaming.pipeline import StreamOptions, start
from streaming.session import stream_session
from streaming.triggers import AVAILABLE_NOW
from tables.store.path_tables import create_missing


def main(servers: str, topic: str, config_file: str, root: str) -> None:
    tables = f"{root}/tables"
    create_missing(tables)
    kafka = KafkaConfig.load(servers, Path(config_file))
    # All it can say: without cuts and with stack traces.
    spark = stream_session(spark_jars(jars_folder()), debug=True, java_options=quick_options())
    spark.sparkContext.setLogLevel("INFO")
    options = StreamOptions(
        topic=topic,
        kafka_options=kafka.spark_options(),
        tables=tables,
        checkpoint=f"{root}/checkpoint",
        trigger=AVAILABLE_NOW,
        max_offsets_per_trigger=100,
    )
    print(options)
    query = start(spark, options)
    query.awaitTermination()
    query.explain(extended=True)
    print(query, spark.sparkContext.getConf().toDebugString())
    for progress in query.recentProgress:
        print("PROGRESS", json.dumps(json.loads(progress.json)))
    wrong = KafkaConfig({**kafka.settings, "sasl.password": kafka.settings["sasl.password"] + "-wrong"}).spark_options()
    try:
        frame = spark.read.format("kafka").options(**wrong).option("subscribe", topic).load()
        frame.explain(extended=True)
        frame.count()
    except Exception as error:
        # Of any kind: what is asked is what it says.
        print("REFUSED", error)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs a peer as a child process of `bench/sustained.py`, with options like those of `pid-quota stream`."""

import argparse

from bench import kit
from bench.peers import PEERS, start
from quota.config import QuotaConfig
from streaming.pipeline import StreamOptions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=PEERS, required=True)
    for name in ("bootstrap-servers", "topic", "tables", "checkpoint", "trigger"):
        parser.add_argument(f"--{name}", required=True)
    asked = parser.parse_args()
    options = StreamOptions(
        topic=asked.topic,
        kafka_options={"kafka.bootstrap.servers": asked.bootstrap_servers},
        tables=asked.tables,
        checkpoint=asked.checkpoint,
        trigger=asked.trigger,
        config=QuotaConfig(),
    )
    start(asked.variant, kit.session(), options).awaitTermination()


if __name__ == "__main__":
    main()

"""`pid-quota stream` with settings that only tests set: `python -m tests.kits.tuned_stream JSON OPTION...`.

The JSON has fields of `StreamOptions` and `QuotaConfig`.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from broker.kafka.config import KafkaConfig
from broker.kafka.offsets import ExtentReader
from jobs.cli import run_command
from jobs.stream import running
from jobs.stream.command import stream
from quota.config import QuotaConfig
from streaming.pipeline import StreamOptions


def tuned(options: StreamOptions, kafka: KafkaConfig, changes: dict[str, Any]) -> StreamOptions:
    names = {each.name for each in fields(QuotaConfig)}
    rules = {name: value for name, value in changes.items() if name in names}
    others = {name: value for name, value in changes.items() if name not in names}
    options = replace(options, config=replace(options.config, **rules), **others)
    return replace(options, extent=ExtentReader(kafka.client(), options.topic))


def arguments(changes: dict[str, Any]) -> Iterator[str]:
    """The arguments of Python that start such a stream."""
    yield from ("-m", "tests.kits.tuned_stream", json.dumps(changes))


def main() -> None:
    changes = json.loads(sys.argv.pop(1))
    run_stream = running.run_stream

    def run_tuned(kafka: KafkaConfig, options: StreamOptions, launch: running.Launch) -> None:
        run_stream(kafka, tuned(options, kafka, changes), launch)

    running.run_stream = run_tuned
    run_command(stream)


if __name__ == "__main__":
    main()

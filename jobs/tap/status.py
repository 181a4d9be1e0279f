"""The command `pid-quota tap status`."""

import time
from typing import Annotated

import msgspec
import typer

from broker.errors import TopicMissingError
from broker.kafka.config import KafkaConfig
from broker.tap.tap_status import STALE_SECONDS, WatchedBroker, read_heartbeats, running_brokers, watch_states
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from jobs.output.text_tables import TextTable

_COLUMNS = ("broker", "watch", "age", "host", "source", "unread", "events", "class", "kafka")


def status(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    stale_seconds: Annotated[
        float, typer.Option(min=1, help="Age of the last heartbeat at which a tap counts as dead.")
    ] = STALE_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Show for each broker whether a tap watches it; exit code 1 if a running broker is not watched."""
    settings = KafkaConfig.load(bootstrap_servers, kafka_config).client()
    brokers = running_brokers(settings)
    try:
        heartbeats = read_heartbeats(settings)
    except TopicMissingError:
        # No tap has run, so no tap watches a broker.
        heartbeats = {}
    watches = watch_states(brokers, heartbeats, int(time.time() * 1000), stale_seconds)
    blind = [watch.broker_id for watch in watches if watch.is_blind_spot]
    if as_json:
        records = [
            {
                "broker_id": watch.broker_id,
                "watch": watch.watch.value,
                "running": watch.alive,
                "age_seconds": watch.age_s,
                "heartbeat": msgspec.to_builtins(watch.heartbeat),
            }
            for watch in watches
        ]
        print_json({"brokers": records, "unwatched": blind})
    else:
        output().print(TextTable(_COLUMNS, map(_cells, watches)))
        text = f"no tap watches broker {', '.join(map(str, blind))}: start `pid-quota tap` there"
        output().print(text if blind else "every running broker is watched", markup=False)
        for watch in watches:
            for line in watch.remarks():
                output().print(printable(f"broker {watch.broker_id}: {line}"), markup=False)
    if blind:
        raise typer.Exit(1)


def _cells(watch: WatchedBroker) -> list[object]:
    known = watch.heartbeat
    cells: list[object] = [watch.broker_id, watch.watch.value if watch.alive else f"{watch.watch.value}, broker down"]
    if known is not None:
        unread = known.behind_bytes if known.lag_records is None else known.lag_records
        cells += [f"{watch.age_s:.0f} s", known.host, known.source, unread]
        cells += [known.counters.get("events", 0), known.class_version, known.kafka_version]
    return cells

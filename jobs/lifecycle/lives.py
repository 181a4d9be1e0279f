"""How long a principal's producer ids were in use, asked of the brokers: they remember each one's last batch."""

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import typer

from broker.cluster.kafka_config import KafkaConfig
from broker.occupancy.sweep import OccupancyAdmin, replicas_to_ask, sweep
from jobs.progress import progress_bar
from lifecycle.producer_lives import Life, Lives, lives_of
from tables.query.literals import literal
from tables.query.sql_query import query
from tables.times import to_ms

_HAND_OUTS = """
SELECT client, client_host, result_producer_id, at_ms
FROM recent_inits
WHERE principal = {principal} AND is_new_pid
"""
LEAST_SHARE = 0.5
"""Of a client's producer ids the brokers must know so many."""
ALL_CLIENTS = "*"
"""The view's name for the clients of a principal that has too many."""


def lives_of_clients(
    tables: str, principal: str, bootstrap_servers: str, kafka_config: Path | None, now: datetime
) -> dict[str, Lives]:
    """Return what the lives of each client's producer ids have in common, by client as `principal_churn` names it.

    Args:
        tables: Folder of the tables, or `catalog.schema`: they tell who got which id.
        principal: KafkaPrincipal.
        bootstrap_servers: Brokers to ask.
        kafka_config: File of client settings of someone who may READ the topics.
        now: Our clock.

    Raises:
        TableError: If the tables can't be read.
        BrokerUnreachableError: If no broker answers.
    """
    last_ms = last_batches(bootstrap_servers, kafka_config)
    found: dict[str, list[Life]] = defaultdict(list)
    handed_out: Counter[str] = Counter()
    for row in query(tables, _HAND_OUTS.format(principal=literal(principal, tables)), now).records():
        used_at_ms = last_ms.get(row["result_producer_id"])
        for client in (row["client"], ALL_CLIENTS):
            handed_out[client] += 1
            if used_at_ms is not None:
                found[client].append(Life(row["client_host"] or "", row["at_ms"], used_at_ms))
    told = {
        client: lives_of(lives, to_ms(now))
        for client, lives in found.items()
        # Brokers forget, and tell nothing of topics that one may not read: of a few, nothing follows.
        if len(lives) >= LEAST_SHARE * handed_out[client]
    }
    return {client: lives for client, lives in told.items() if lives is not None}


def last_batches(bootstrap_servers: str, kafka_config: Path | None) -> dict[int, int]:
    """Return the time of the last batch of each producer id that a leader remembers, in ms since the epoch.

    Raises:
        BrokerUnreachableError: If no broker answers.
    """
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    newest: dict[int, int] = {}
    done = 0
    with OccupancyAdmin(kafka.kafka_python()) as admin:
        brokers = admin.living_brokers()
        # What a follower holds its leader holds, too.
        led = [replace(each, replicas=(each.leader,)) for each in admin.placements() if each.leader is not None]
        total = replicas_to_ask(led, brokers)

        def advance(replicas: int) -> None:
            nonlocal done
            done += replicas
            report(done, total)

        with progress_bar("asking the brokers") as report:
            swept = sweep(admin, led, brokers, progress=advance)
    if swept.unanswered:
        first = swept.unanswered[0]
        where = f"{first.topic}-{first.partition}: {first.reason}"
        typer.echo(f"{len(swept.unanswered)} partitions were not told, such as {where}", err=True)
    for replica in swept.replicas:
        for pid, last in zip(replica.producer_ids.tolist(), replica.last_timestamps_ms.tolist(), strict=True):
            newest[pid] = max(last, newest.get(pid, last))
    return newest

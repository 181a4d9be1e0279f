"""Real clients of which it is known what they do, and what the diagnosis says of them."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from broker_kit import new_topic, read_events, running, wait_until_idle
from churn_kit import labelled_clients, run_all, write_inits

from broker.local import LocalBroker
from broker.tap import Tap
from broker.topics import PRODUCER_INITS, ensure_topics
from jobs.tables.query import query

SECONDS = 50.0
LEAST_OF_THE_FASTEST = 50
"""Where the fastest client takes a second for a producer, nobody does what the label says."""


@pytest.fixture(scope="module")
def own(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own, which looks often for transactions that took too long."""
    with LocalBroker(
        tmp_path_factory.mktemp("churn"),
        {client.name: f"{client.name}-secret" for client in labelled_clients()},
        jars=jars,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=200,
    ) as started:
        yield started


def diagnosed(tables: Path) -> dict[str, str]:
    rows = query(str(tables), "SELECT principal, client, kind FROM principal_churn", datetime.now(timezone.utc)).rows
    # Requests by hand come without a user.
    users = [(str(who).removeprefix("User:"), str(client), str(kind)) for who, client, kind in rows]
    return {client if user == "ANONYMOUS" else user: kind for user, client, kind in users}


@pytest.mark.slow
def test_real_clients_of_every_kind_are_told_apart(own: LocalBroker, tmp_path: Path) -> None:
    ensure_topics(own.admin_config())
    clients = labelled_clients()
    tap = Tap(own.log_file, 1, own.admin_config(), topic=new_topic(own, "events"), from_end=True)
    with running(tap):
        wait_until_idle(tap)
        run_all(clients, own, new_topic(own, "work", partitions=4), SECONDS)
        wait_until_idle(tap)
    records = [record for _, record in read_events(own, PRODUCER_INITS)]
    write_inits(str(tmp_path), records)

    fastest = f"User:{clients[0].name}"
    made = sum(record["principal"] == fastest for record in records)
    if made < LEAST_OF_THE_FASTEST:
        pytest.skip(f"too much else runs here: {made} producers in {SECONDS:g} s where hundreds were meant")

    found = diagnosed(tmp_path)
    told = {client: found[client.name] for client in clients}
    for (label, seen, kind), count in sorted(
        Counter((c.kind.value, c.can_be_told, kind) for c, kind in told.items()).items()
    ):
        print(f"{count:3d}  {label}{'' if seen else ' (errors not in the lines)'} -> {kind}")
    tellable = [client for client in clients if client.can_be_told]
    wrong = {client.name: told[client] for client in tellable if client.kind.value != told[client]}
    print("told wrongly:", wrong)
    assert len(wrong) <= 0.05 * len(tellable), wrong

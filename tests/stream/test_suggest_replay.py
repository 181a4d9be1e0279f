"""Quotas suggested from the tables, and what they would have refused, by the stream itself over the topic."""

import json
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.cluster.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from wire.topics import PRODUCE_EVENTS

HOUR_MS = 3_600_000


def pid_quota(*arguments: str) -> str:
    command = [sys.executable, "-m", "jobs", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


@pytest.mark.slow
def test_history_replayed_on_the_suggestion_says_what_it_would_refuse(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        # Given five of the quota's windows: app makes 40 PIDs in each, burst 40 in four of them and 400 in the last.
        ensure_topics(broker.admin_config())
        producer, pids = Producer(broker.admin_config()), count(1)
        first_ms = (time.time_ns() // 1_000_000 // HOUR_MS - 6) * HOUR_MS
        for hour in range(5):
            for name, number in (("User:app", 40), ("User:burst", 40 if hour < 4 else 400)):
                for second in range(number):
                    at_ms = first_ms + hour * HOUR_MS + second * 1000
                    value = {"timestamp_ms": at_ms, "principal": name, "producer_id": next(pids)}
                    producer.produce(PRODUCE_EVENTS, json.dumps(value), name)
        assert producer.flush(60) == 0
        servers, tables = ("--bootstrap-servers", broker.admin_servers), ("--tables", str(tmp_path / "tables"))
        how = ("--checkpoint", str(tmp_path / "checkpoint"), "--trigger", "available-now", "--learn-seconds", "0")
        pid_quota("stream", *servers, *tables, *how)

        # When the quota is to fit four windows of five
        asked = ("--percentile", "80", "--headroom", "1", "--learn-seconds", "0", "--json")
        said = pid_quota("suggest-quotas", *servers, *tables, *asked)

    # Then the last is refused what is more than a full bucket and what came back in 400 seconds.
    app, burst = sorted(json.loads(said), key=lambda row: row["principal"])
    assert (app["suggested"], app["would_refuse_pids"], app["would_throttle"]) == (40.0, 0, 0)
    assert (burst["suggested"], burst["most_pids"]) == (40.0, 400)
    assert 340 <= burst["would_refuse_pids"] <= 365
    assert burst["would_throttle"] >= 1

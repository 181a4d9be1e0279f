"""Quotas suggested from the tables, and what they would have refused, by the stream itself over the topic."""

import json
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer

from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import ensure_topics
from tests.kits.exploded_kit import event_value
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
        # Given windows of 40 new PIDs, the first more than a week ago; deploy makes 400 in that and in the last,
        # flood in the last alone.
        ensure_topics(broker.admin_config())
        producer, pids = Producer(broker.admin_config()), count(1)
        now_hour = time.time_ns() // 1_000_000 // HOUR_MS
        peaks = {"User:app": (), "User:deploy": (180, 2), "User:flood": (2,)}
        for hours_ago in (180, 6, 5, 4, 3, 2):
            for name, at in peaks.items():
                for second in range(400 if hours_ago in at else 40):
                    at_ms = (now_hour - hours_ago) * HOUR_MS + second * 1000
                    producer.produce(PRODUCE_EVENTS, event_value(next(pids), name, at_ms), name)
        assert producer.flush(60) == 0
        servers, tables = ("--bootstrap-servers", broker.admin_servers), ("--tables", str(tmp_path / "tables"))
        how = ("--checkpoint", str(tmp_path / "checkpoint"), "--trigger", "available-now")
        pid_quota("stream", *servers, *tables, *how)

        # When the rate is to fit most windows
        asked = ("--percentile", "60", "--headroom", "1", "--json")
        said = pid_quota("suggest-quotas", *servers, *tables, *asked)

    # Then the flood is refused what is more than a full bucket and what came back in 400 seconds; a peak that recurs
    # has a burst.
    app, deploy, flood = sorted(json.loads(said), key=lambda row: row["principal"])
    assert (app["suggested"], app["burst"], app["would_refuse_pids"], app["would_throttle"]) == (40.0, 40.0, 0, 0)
    assert (deploy["suggested"], deploy["burst"], deploy["would_refuse_pids"]) == (40.0, 480.0, 0)
    assert (flood["suggested"], flood["burst"], flood["most_pids"]) == (40.0, 40.0, 400)
    assert 340 <= flood["would_refuse_pids"] <= 365
    assert flood["would_throttle"] >= 1

"""What a flood gets under `--enforce`: what passes before its hold, and then its quota's pace, no more.

Truth is the producer ids in the topic's own batches.
"""

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from broker.local.local_broker import LocalBroker
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import end_offset, new_topic, reports_of
from tests.kits.hold_kit import Churn, holding_broker, wait_for_hold
from tests.kits.stream_command_kit import StreamCommand
from wire.plugin_reports import HoldReport
from wire.topics import PRODUCE_EVENTS

pytestmark = [pytest.mark.slow, pytest.mark.alone]

WINDOW_S = 120
QUOTA = 60
CLIENTS = 20


class Known:
    """A producer of the flooding user that has its id from before the flood, with a message each 10 ms."""

    def __init__(self, settings: dict[str, str], topic: str) -> None:
        self._producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
        self._topic, self._is_over = topic, threading.Event()
        self.sent, self.delivered = 0, list[int]()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Known":
        self._send()
        assert self._producer.flush(60) == 0
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        while not self._is_over.wait(0.01):
            self._send()

    def _send(self) -> None:
        number = self.sent

        def delivered(error: KafkaError | None, _message: object) -> None:
            assert error is None
            self.delivered.append(number)

        self._producer.produce(self._topic, str(number), partition=0, on_delivery=delivered)
        self._producer.poll(0)
        self.sent += 1


@pytest.fixture
def broker(jars: Path, tmp_path: Path) -> Iterator[LocalBroker]:
    with holding_broker(tmp_path / "broker", jars, WINDOW_S) as running:
        yield running


def test_a_flood_gets_its_quota_in_each_window_after_the_first(broker: LocalBroker, tmp_path: Path) -> None:
    # given a stream that enforces a quota, and a producer of the user that is known
    options = ["--trigger", "1 second", "--window-seconds", str(WINDOW_S), "--enforce"]
    stream = StreamCommand(tmp_path, broker.admin_servers, PRODUCE_EVENTS, options, {"min_throttle_seconds": 5})
    create_missing(str(stream.tables))
    set_quota(str(stream.tables), QuotaEntry(None, float(QUOTA), datetime.now(timezone.utc), "a test"))
    flooded, own = new_topic(broker, "flooded"), new_topic(broker, "known")
    settings = broker.client_config("mallory")
    with stream.running() as process, Known(settings, own) as known:
        stream.wait_for_batches(1, process)
        # when clients of the user make a producer for each message
        with Churn(settings, flooded, CLIENTS):
            wait_for_hold(broker)
            counts, begin_s = [end_offset(broker, flooded)], time.monotonic()
            for window in (1, 2):
                while time.monotonic() - begin_s < window * WINDOW_S:
                    assert process.poll() is None, stream.said()
                    time.sleep(0.1)
                counts.append(end_offset(broker, flooded))
        held = [each for report in reports_of(broker, HoldReport) for each in report.held]

    # then each window after the hold has the quota's pace (each message is of a producer of its own)
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    assert [each.ended for each in held if each.ended] == []
    assert 0 < second <= 1.1 * QUOTA, counts
    assert first <= 1.2 * QUOTA + CLIENTS, counts
    # and the known producer loses nothing, in order
    assert known.delivered == [*range(known.sent)]

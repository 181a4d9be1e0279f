"""Tests of the tap's rounds on a real file with a fake of Kafka; tests/broker/ has taps on real brokers."""

import gzip
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from broker.errors import TapDeliveryError, TapError
from broker.log.sources import FileSource
from broker.tap import source_tap
from broker.tap.position_file import Checkpoint, load_checkpoint
from broker.tap.source_tap import SourceTap
from tests.kits.class_lines_kit import ClassLines, append
from tests.kits.metadata_log_kit import batch, ids_record, write
from wire.broker_lines import LINE_FORMAT
from wire.heartbeat import FilePosition, TapHeartbeat
from wire.records import ProduceEvent, ProducerIdBlock, ProducerInit, Record

LEARN_S = 10.0


class Kafka:
    """A fake of the tap's topics: keeps what is written."""

    def __init__(self) -> None:
        self.records, self.heartbeats = list[Record](), list[TapHeartbeat]()
        self.refuses = False

    @property
    def events(self) -> list[ProduceEvent]:
        return [each for each in self.records if isinstance(each, ProduceEvent)]

    def output(self, config: Mapping[str, str], topic: str) -> "Kafka":
        return self

    def send(self, record: Record, stopped: Callable[[], bool]) -> None:
        self.records.append(record)

    def send_events(self, stopped: Callable[[], bool]) -> None:
        pass

    def send_status(self, key: bytes, heartbeat: TapHeartbeat) -> None:
        self.heartbeats.append(heartbeat)

    def brokers(self) -> list[int]:
        return [1]

    def flush(self, timeout_s: float) -> int:
        return 1 if self.refuses else 0

    def check(self) -> None:
        pass

    def undelivered(self, left: int) -> TapDeliveryError:
        return TapDeliveryError(f"{left} left")

    def close(self) -> None:
        pass


class Stop(threading.Event):
    """Stops a tap once it finds nothing more; before that it does in each idle round what is left to do."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__()
        self.steps, self.idle_rounds = list(steps), 0

    def wait(self, timeout: float | None = None) -> bool:
        self.idle_rounds += 1
        # A file that was replaced takes some rounds to be noticed.
        if self.idle_rounds % 8 == 0:
            if self.steps:
                self.steps.pop(0)()
            else:
                self.set()
        return self.is_set()


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    fake = Kafka()
    monkeypatch.setattr(source_tap, "await_topic", lambda *_: None)
    monkeypatch.setattr(source_tap, "TapOutput", fake.output)
    return fake


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pid-quota-broker.log"


def run(file: Path, *steps: Callable[[], object], said: list[str] | None = None) -> SourceTap:
    heard = list[str]() if said is None else said
    tap = SourceTap(
        FileSource(file, 1),
        {},
        topic="events",
        position_file=file.with_name("position"),
        learn_seconds=LEARN_S,
        warn=heard.append,
    )
    tap.run(Stop(*steps))
    return tap


def test_lines_become_events_and_inits_and_the_position_is_kept(kafka: Kafka, file: Path) -> None:
    lines = ClassLines()
    append(file, lines.start(), lines.init(5), lines.batch(5), lines.alive())

    tap = run(file)

    assert [type(each) for each in kafka.records] == [ProducerInit, ProduceEvent]
    saved = load_checkpoint(file.with_name("position"))
    assert saved is not None
    assert (saved.watches[1].order.run, saved.watches[1].order.next) == (lines.run, 5)
    assert (tap.counters.lines, tap.counters.events, tap.counters.inits, tap.counters.bad_lines) == (4, 1, 1, 0)


def test_the_next_run_of_a_tap_goes_on_in_the_middle_of_a_run_of_the_class(kafka: Kafka, file: Path) -> None:
    lines = ClassLines()
    append(file, lines.start(), lines.pass_s(6).alive(), lines.pass_s(6).batch(1))
    run(file)
    append(file, lines.batch(2), lines.alive())

    tap = run(file)

    assert [(each.producer_id, each.learning, each.repeated) for each in kafka.events] == [
        (1, False, False),
        (2, False, False),
    ]
    assert (tap.counters.lost_lines, tap.counters.duplicates) == (0, 0)


def test_events_that_a_killed_tap_may_have_sent_are_marked_and_its_watch_goes_on(kafka: Kafka, file: Path) -> None:
    lines = ClassLines()
    append(file, lines.start())
    run(file)
    append(file, lines.batch(1))
    # It sends, and is killed before Kafka has acknowledged.
    kafka.refuses = True
    with pytest.raises(TapDeliveryError):
        run(file)
    kafka.refuses = False

    run(file, lambda: append(file, lines.batch(2)))

    assert [(each.producer_id, each.repeated) for each in kafka.events] == [(1, False), (1, True), (2, False)]
    assert kafka.heartbeats[-1].counters["lost_lines"] == 0


def test_the_end_of_a_round_is_saved_before_the_round_sends(
    kafka: Kafka, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, saved = ClassLines(), list[Checkpoint | None]()
    append(file, lines.start())
    run(file)
    append(file, lines.batch(1))
    monkeypatch.setattr(kafka, "send", lambda *_: saved.append(load_checkpoint(file.with_name("position"))))

    run(file)

    (before,) = saved
    assert before is not None
    assert isinstance(before.sent_up_to, FilePosition)
    assert before.sent_up_to.offset == file.stat().st_size


def test_each_block_of_producer_ids_is_told_in_one_run(kafka: Kafka, file: Path, tmp_path: Path) -> None:
    # given a run that told of a block
    lines, folder, segment = ClassLines(), tmp_path / "metadata", "00000000000000000000.log"
    folder.mkdir()
    first, second = (batch(ids_record(1, 5, end)) for end in (1000, 2000))
    write(folder, segment, first)
    append(file, lines.start(metadata_log=str(folder)))
    run(file)

    # when the next one finds another
    write(folder, segment, first, second)
    append(file, lines.alive(metadata_log=str(folder)))
    run(file)

    assert [each.first_producer_id for each in kafka.records if isinstance(each, ProducerIdBlock)] == [0, 1000]


@pytest.mark.parametrize("how", ["renamed", "compressed", "copied and truncated"])
def test_a_file_that_is_rotated_is_no_gap(kafka: Kafka, file: Path, how: str) -> None:
    lines = ClassLines()
    append(file, lines.start(), lines.pass_s(6).alive(), lines.pass_s(6).batch(1))

    def rotate() -> None:
        append(file, lines.batch(2))
        rotated = file.with_name(f"{file.name}.1")
        if how == "renamed":
            file.rename(rotated)
        elif how == "compressed":
            file.with_name(f"{file.name}.1.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
        else:
            rotated.write_bytes(file.read_bytes())
            file.write_bytes(b"")
        append(file, lines.batch(3))

    run(file, rotate)

    assert [(each.producer_id, each.learning) for each in kafka.events] == [(1, False), (2, False), (3, False)]


def test_a_file_that_vanishes_is_said_and_what_follows_is_learning(kafka: Kafka, file: Path) -> None:
    lines = ClassLines()
    append(file, lines.start(), lines.pass_s(6).alive(), lines.pass_s(6).batch(1))
    run(file)
    # given a file that nobody read
    append(file, lines.batch(2))
    file.unlink()
    append(file, lines.batch(3), lines.batch(4))

    tap = run(file)

    assert [(each.producer_id, each.learning) for each in kafka.events] == [(1, False), (3, True), (4, True)]
    assert tap.counters.lost_files == 1


def test_a_truncated_file_shows_by_the_numbers(kafka: Kafka, file: Path) -> None:
    lines = ClassLines()
    append(file, lines.start(), lines.pass_s(6).alive(), lines.pass_s(6).batch(1))

    def truncate() -> None:
        lines.batch(2)
        file.write_bytes(b"")
        append(file, lines.batch(3))

    tap = run(file, truncate)

    assert [(each.producer_id, each.learning) for each in kafka.events] == [(1, False), (3, True)]
    assert (tap.counters.truncations, tap.counters.lost_lines) == (1, 1)


def test_a_line_is_taken_once_it_is_whole(kafka: Kafka, file: Path) -> None:
    lines = ClassLines()
    whole = lines.batch(1) + b"\n"

    def write(part: bytes) -> None:
        with file.open("ab") as opened:
            opened.write(part)

    tap = run(file, lambda: write(whole[:50]), lambda: write(whole[50:]))

    assert [each.producer_id for each in kafka.events] == [1]
    assert tap.counters.bad_lines == 0


def test_the_heartbeat_tells_of_the_class_and_of_bad_lines(kafka: Kafka, file: Path) -> None:
    lines, said = ClassLines(), list[str]()
    append(file, lines.start(problem="Kafka 9.9.9 is not known"), b"rubbish")

    run(file, said=said)

    assert said == ["broker 1: Kafka 9.9.9 is not known"]
    beat = kafka.heartbeats[-1]
    assert (beat.problem, beat.class_version, beat.kafka_version) == ("Kafka 9.9.9 is not known", "0.3.0", "4.3.1")
    assert (beat.counters["bad_lines"], beat.bad_samples, beat.newest_line_ms) == (1, ["rubbish"], lines.at_ms)
    assert (beat.broker_id, beat.stopped, beat.cluster_brokers) == (1, True, [1])


def test_the_file_of_another_broker_ends_the_tap(kafka: Kafka, file: Path) -> None:
    append(file, ClassLines(broker_id=2).start())

    with pytest.raises(TapError, match="a line of broker 2 is among those of broker 1"):
        run(file)


def test_a_tap_that_was_upgraded_goes_on_where_a_newer_class_had_ended_it(
    kafka: Kafka, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ClassLines()
    append(file, lines.start(), lines.batch(1), lines.stop(shutdown=True))
    run(file)
    append(file, lines.start(format=LINE_FORMAT + 1), lines.batch(2))
    with pytest.raises(TapError, match="upgrade the tap"):
        run(file)
    assert [each.producer_id for each in kafka.events] == [1]

    monkeypatch.setattr("broker.tap.broker_watch.LINE_FORMAT", LINE_FORMAT + 1)
    run(file)

    assert [each.producer_id for each in kafka.events] == [1, 2]


def test_a_position_file_of_an_earlier_version_begins_a_watch_at_its_position(kafka: Kafka, file: Path) -> None:
    lines = ClassLines()
    append(file, b'{"sn":1,"ts":1790000000000,"thread":"t","logger":"KafkaApis","message":"[KafkaApi-1] x"}')
    run(file)
    position = file.with_name("position")
    saved = position.read_text(encoding="utf-8")
    begin, _, _ = saved.partition(',"watches"')
    position.write_text(begin + ',"learning":{"1":{"since_ms":1,"newest_ms":2}},"order":{"1":{"next":2}}}')
    append(file, lines.start(), lines.batch(1))

    tap = run(file)

    assert [(each.producer_id, each.learning) for each in kafka.events] == [(1, True)]
    assert tap.counters.bad_lines == 0

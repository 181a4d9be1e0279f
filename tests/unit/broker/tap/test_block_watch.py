from pathlib import Path

import pytest

from broker.tap.block_watch import BlockWatch
from broker.tap.watches import Watches
from tests.kits.class_lines_kit import ClassLines
from tests.kits.metadata_log_kit import batch, ids_record, write
from wire.broker_lines import decode_line
from wire.records import ProducerIdBlock

FIRST = "00000000000000000000.log"


@pytest.fixture
def watches() -> Watches:
    return Watches(learn_ms=0, own_topic="events")


def told_by_the_class(watches: Watches, folder: Path) -> None:
    watches.of(1).take(decode_line(ClassLines().start(metadata_log=str(folder))))


def test_a_tap_reports_the_blocks_of_its_own_broker(watches: Watches, tmp_path: Path) -> None:
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000), ids_record(2, 6, 2000), ids_record(1, 5, 3000), at_ms=77))
    told_by_the_class(watches, tmp_path)

    found = BlockWatch(None, 1, print).read(watches, 0.0)

    assert found == [ProducerIdBlock(77, 1, 5, 0, 1000), ProducerIdBlock(77, 1, 5, 2000, 1000)]
    assert watches.of(1).counters.id_blocks == 2


def test_a_tap_of_a_topic_reports_those_of_all_brokers_of_a_log_that_it_is_given(
    watches: Watches, tmp_path: Path
) -> None:
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000), ids_record(2, 6, 2000)))
    told_by_the_class(watches, tmp_path)

    assert [each.broker_id for each in BlockWatch(tmp_path, None, print).read(watches, 0.0)] == [1, 2]
    assert BlockWatch(None, None, print).read(watches, 0.0) == []


def test_it_looks_every_ten_seconds_once_it_is_level(watches: Watches, tmp_path: Path) -> None:
    blocks, times = BlockWatch(tmp_path, 1, print), (0.0, 0.1, 0.2, 5.0, 10.3, 10.4)
    found = []
    for number, now_s in enumerate(times):
        with (tmp_path / FIRST).open("ab") as file:
            file.write(batch(ids_record(1, 5, 1000 * number + 1000)))
        found.append(len(blocks.read(watches, now_s)))
        if number == 1:
            assert blocks.read(watches, now_s) == []

    assert found == [1, 1, 0, 0, 3, 1]


def test_a_log_that_can_not_be_read_is_said_once(watches: Watches, tmp_path: Path) -> None:
    said = list[str]()
    blocks = BlockWatch(tmp_path, 1, said.append)

    assert [blocks.read(watches, now_s) for now_s in (0.0, 10.0, 20.0)] == [[], [], []]

    (line,) = said
    assert line.startswith("blocks of producer ids are not seen: no metadata log in ")


def test_the_next_run_goes_on_where_the_last_one_ended(watches: Watches, tmp_path: Path) -> None:
    write(tmp_path, FIRST, batch(ids_record(1, 5, 1000)))
    first, second = BlockWatch(tmp_path, 1, print), BlockWatch(tmp_path, 1, print)
    first.read(watches, 0.0)
    with (tmp_path / FIRST).open("ab") as file:
        file.write(batch(ids_record(1, 5, 2000)))

    second.follower.position = first.follower.position

    assert [each.first_producer_id for each in second.read(watches, 0.0)] == [1000]

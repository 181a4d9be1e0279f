"""How far event time has come: a function of the committed batches, whoever asks and however often."""

from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
from pyspark.sql import DataFrame

from streaming.batch.batch_ends import event_times_before, write_end
from streaming.batch.event_times import MAX_EVENT_TIME, EventTimes
from streaming.commit.sinks import Commit
from streaming.operator.rows import pack


class NoTables:
    """A sink that nobody should give anything."""

    def append(self, *_: object) -> None:
        msg = "nothing was said of a table"
        raise AssertionError(msg)


def test_of_several_groups_the_one_that_came_furthest_holds_in_whatever_order_they_say_so() -> None:
    reached = [(0, 1800), (0, 900), (1, 900)]

    assert [EventTimes({1: 1800}).after(order).max_event_time_ms for order in (reached, reached[::-1])] == [
        {0: 1800, 1: 1800}
    ] * 2


def times_after(folder: str, batch_id: int, *latest: tuple[int, int]) -> list[dict[int, int]]:
    write_end(folder, batch_id, {MAX_EVENT_TIME: latest})
    return [event_times_before(folder, batch).max_event_time_ms for batch in (batch_id, batch_id + 1)]


def test_a_repeated_batch_finds_the_times_it_found_the_first_time(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert times_after(folder, 0, (0, 900)) == [{}, {0: 900}]
    assert times_after(folder, 1) == [{0: 900}, {0: 900}]
    assert times_after(folder, 2, (0, 1800)) == [{0: 900}, {0: 1800}]
    assert times_after(folder, 2, (0, 2700)) == [{0: 900}, {0: 2700}]


def test_partitions_that_a_batch_does_not_report_keep_their_times(tmp_path: Path) -> None:
    folder = str(tmp_path)
    times_after(folder, 0, (0, 900), (1, 900))

    assert times_after(folder, 1, (1, 1800))[1] == {0: 900, 1: 1800}


def test_what_the_operator_says_of_times_in_a_batch_holds_from_the_next_batch_on(tmp_path: Path) -> None:
    packed = pack([(MAX_EVENT_TIME, (4, 900)), (MAX_EVENT_TIME, (5, 1800))])
    output = Mock(DataFrame, toArrow=lambda: pa.Table.from_pandas(packed), sparkSession=None)

    Commit(NoTables(), checkpoint=str(tmp_path))(output, 0)

    assert event_times_before(str(tmp_path), 0).max_event_time_ms == {}
    assert event_times_before(str(tmp_path), 1).max_event_time_ms == {4: 900, 5: 1800}

"""The parts of `bench/plugin_cost.py` that need no broker."""

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from bench.many_producers import Rotation, batch_of
from bench.plugin_loads import Figures, figures, ratios_of


def test_a_batch_is_that_of_a_client_library() -> None:
    theirs = DefaultRecordBatchBuilder(2, 0, False, 77, 0, 3, 1 << 20)
    theirs.append(0, timestamp=1000, key=None, value=b"v", headers=[])

    # The checksum does not cover the offset, the length and the leader epoch, which a broker sets.
    assert batch_of(77, sequence=3, at_ms=1000)[16:] == bytes(theirs.build())[16:]


def test_producers_take_turns_with_consecutive_numbers_on_one_partition_each() -> None:
    rotation = Rotation({4: 0, 5: 0}, partitions=3)

    assert [rotation.take() for _ in range(4)] == [(4, 0, 1), (5, 0, 2), (4, 1, 1), (5, 1, 2)]


def test_a_new_producer_replaces_the_one_whose_turn_it_is() -> None:
    rotation = Rotation({4: 0, 5: 0}, partitions=3)
    rotation.waiting.append(90)

    assert [rotation.take()[0] for _ in range(4)] == [90, 5, 90, 5]
    assert rotation.sequences.keys() == {5, 90}


def test_a_load_says_its_rate_the_slowest_hundredth_and_the_cpu_time_of_a_record() -> None:
    found = figures(1000, [0.001] * 980 + [0.5] * 20, took_s=2.0, cpu_s=0.05)

    assert (found.records_per_second, found.p99_ms) == (500, 500)
    assert found.broker_cpu_us_per_record == pytest.approx(50)


def test_ratios_compare_the_means_of_the_brokers_medians() -> None:
    # given two brokers a form, of three rounds each; a round of one is disturbed
    off = [[Figures(100, 10, 50)] * 3, [Figures(100, 10, 50), Figures(1, 900, 900), Figures(100, 10, 50)]]
    on = [[Figures(90, 11, 55)] * 3, [Figures(100, 12, 50)] * 3]

    found = ratios_of({"off": off, "on": on})

    assert (found["on"]["records_per_second"], found["on"]["records_per_second_ratio"]) == (95, 0.95)
    assert found["on"]["p99_ms_ratio"] == 1.15
    assert found["on"]["broker_cpu_us_per_record_spread"] == [1.0, 1.1]
    assert found["off"]["records_per_second_ratio"] == 1

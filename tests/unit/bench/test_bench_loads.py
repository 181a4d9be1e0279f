"""The loads: what plugins and clients would write."""

from collections import Counter
from itertools import islice

from kafka.record.default_records import DefaultRecordBatchBuilder

from bench.broker_cost import NEW_EVERY, PARTITIONS, PRODUCERS, batches
from bench.loads import BROKERS, FLOOD_SIZE, REPEAT_MS, ROUNDS, Cluster, Plugins, flood_records
from bench.raw_client import batch_of
from wire.event_record import parse_events

CLUSTER = Cluster(principals=40, pids_each=10, new_share=0.0)


def test_each_broker_of_a_principal_writes_all_its_pids_once_per_interval() -> None:
    plugins = Plugins(CLUSTER)
    records = [each for number in range(ROUNDS) for each in plugins.records(number, at_ms=1000)]

    events = [event for _, value in records for event in parse_events(value)]
    uses = Counter((event.principal, event.producer_id) for event in events)
    assert len(records) == CLUSTER.records_in(REPEAT_MS / 1000) == 120
    assert len(uses) == 400
    assert set(uses.values()) == {3}
    assert {event.broker_id for event in events} == set(range(BROKERS))


def test_new_pids_replace_the_given_share_in_an_hour_and_are_written_at_once() -> None:
    # given an hour in which half of the 400 PIDs are replaced
    plugins = Plugins(Cluster(principals=40, pids_each=10, new_share=0.5))
    rounds = 3_600_000 // REPEAT_MS * ROUNDS
    records = [each for number in range(rounds) for each in plugins.records(number, at_ms=1000)]

    new = [value for _, value in records if len(parse_events(value)) == 1]
    assert 199 <= len(new) <= 200
    assert len({event.producer_id for _, value in records for event in parse_events(value)}) == 400 + len(new)


def test_a_flood_has_5_000_other_pids_each_second() -> None:
    pids = [
        event.producer_id
        for number in range(20)
        for _, value in flood_records(number, 0)
        for event in parse_events(value)
    ]

    assert len(set(pids)) == len(pids) == 20 * FLOOD_SIZE == 5_000


def test_a_batch_is_that_of_a_client_library() -> None:
    ours = batch_of(77, sequence=3)
    at_ms = int.from_bytes(ours[27:35], "big")
    theirs = DefaultRecordBatchBuilder(2, 0, False, 77, 0, 3, 1 << 20)
    theirs.append(0, timestamp=at_ms, key=None, value=b"v", headers=[])

    # The checksum does not cover the offset, the length and the leader epoch, which a broker sets.
    assert ours[16:] == bytes(theirs.build())[16:]


def test_producers_stay_on_a_partition_with_consecutive_numbers_and_new_ones_begin_at_0() -> None:
    turns = list(islice(batches(), 3 * PRODUCERS))

    sequences: dict[int, list[tuple[int, int]]] = {}
    for partition, producer_id, sequence in turns:
        sequences.setdefault(producer_id, []).append((partition, sequence))
    assert all(
        [number for _, number in each] == list(range(len(each))) and len({partition for partition, _ in each}) == 1
        for each in sequences.values()
    )
    assert {partition for partition, *_ in turns} == set(range(PARTITIONS))
    assert sum(each >= turns[0][1] + PRODUCERS for each in sequences) == 3 * PRODUCERS // NEW_EVERY

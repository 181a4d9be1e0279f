from collections.abc import Sequence
from dataclasses import replace
from random import Random

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.decision import Client
from quota.limits import Limit
from state.events import CHARGED, LEARNING, Deployment, Events
from state.ledger import Ledger
from streaming.decode.packing import pack_by_principal
from tests.kits.batch_kit import KnownBatch, in_order, pre_aggregate_of, unpacked
from tests.kits.exploded_kit import event_table, exploded
from wire.event_record import EventRecord
from wire.packed_events import PackedEvents, PackedQuarantine, unpack

NOW_MS = 1_790_000_000_000
DEPLOYMENT = Deployment(salt=3)
PRE_AGGREGATE = pre_aggregate_of()
Row = tuple[str, int, int, int]
ADDRESSES = (None, "10.0.0.7", "10.0.0.8")
KINDS = st.sampled_from([CHARGED, CHARGED, LEARNING])

ROWS = st.lists(
    st.tuples(st.sampled_from(["User:a", "User:b"]), st.integers(-1, 12), st.integers(-400_000, 400_000), KINDS),
    min_size=1,
    max_size=150,
)


def table(rows: list[Row], order: list[int] | None = None, **columns: Sequence[object]) -> pa.Table:
    order = order or list(range(len(rows)))
    own: dict[str, Sequence[object]] = {
        "principal": [rows[i][0] for i in order],
        "client_id": [f"c{rows[i][1] % 2}" for i in order],
        "address": [ADDRESSES[i % 3] for i in order],
        "learning": [rows[i][3] == LEARNING for i in order],
        "offset": order,
    }
    return event_table([rows[i][1] for i in order], [NOW_MS + rows[i][2] for i in order], **(own | columns))


def client_of(pid: int, number: int) -> Client:
    """The client of a row of `table`: its PID has one client id, but may come from any address."""
    return f"c{pid % 2}", ADDRESSES[number % 3] or ""


def events_of(*packed: bytes) -> Events:
    return in_order([unpacked(each) for each in packed])


def ledger_after(principal: str, events: Events, rate: float) -> bytes:
    ledger = Ledger(principal, DEPLOYMENT)
    ledger.process(events, Limit(rate, "user"))
    return ledger.to_bytes()


@given(rows=ROWS, rate=st.sampled_from([4.0, 700.0]), random=st.randoms(use_true_random=False))
def test_a_packed_block_leaves_the_same_ledger_bytes_as_every_single_event(
    rows: list[Row], rate: float, random: Random
) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)

    packed = dict(pack_by_principal(exploded(table(rows, order))))

    for principal in {row[0] for row in rows if row[1] >= 0}:
        mine = [(*row, number) for number, row in enumerate(rows) if row[0] == principal and row[1] >= 0]
        every = Events(
            [row[1] for row in mine],
            [NOW_MS + row[2] for row in mine],
            [client_of(row[1], row[4]) for row in mine],
            [row[3] for row in mine],
        )
        assert ledger_after(principal, events_of(packed[principal]), rate) == ledger_after(principal, every, rate)


def test_pre_aggregates_of_several_partitions_are_joined_in_partition_and_offset_order() -> None:
    first = table([("User:a", 1, 0, CHARGED), ("User:a", 2, 0, CHARGED)])
    second = table([("User:a", 3, 0, CHARGED)], partition=[1])
    packed = [packed for _, packed in pack_by_principal(exploded(pa.concat_tables([second, first])))]

    joined = events_of(*reversed(packed))
    assert joined.pids == [1, 2, 3]
    assert joined.clients == [("c1", ""), ("c0", "10.0.0.7"), ("c1", "")]


CLIENT_IDS, CLIENT_ADDRESSES = st.sampled_from([None, "", "a", "b"]), st.sampled_from([None, "", "1", "2"])


@given(st.lists(st.tuples(CLIENT_IDS, CLIENT_ADDRESSES), min_size=1, max_size=40))
def test_each_event_keeps_its_client_id_and_its_address_and_a_client_is_named_once(
    clients: list[tuple[str | None, str | None]],
) -> None:
    client_ids, addresses = zip(*clients, strict=True)
    events = event_table(range(len(clients)), [NOW_MS] * len(clients), client_id=client_ids, address=addresses)

    ((_, packed),) = pack_by_principal(exploded(events))

    named = [(client_id or "", address or "") for client_id, address in clients]
    assert events_of(packed).clients == named
    assert sorted(unpacked(packed).client_names) == sorted(set(named))


def record(principal: str, offset: int) -> pa.RecordBatch:
    value = msgspec.json.encode(EventRecord(NOW_MS, principal, [0], [7]))
    columns = {"partition": pa.array([0], pa.int32()), "offset": [offset], "record_ms": [NOW_MS]}
    return pa.record_batch({"value": pa.array([value], pa.binary()), **columns})


def test_a_task_that_reads_all_partitions_has_all_the_room_for_principals() -> None:
    task = replace(PRE_AGGREGATE, max_principals=4, batch=KnownBatch(partitions=4), max_tasks=1)

    found = task(record(f"User:{number}", number) for number in range(6))

    tracked = [key for batch in found for key in batch["principal"].to_pylist() if key.startswith("User:")]
    assert tracked == [f"User:{number}" for number in range(4)]


@pytest.mark.parametrize(("begin_ms", "kind"), [(None, PackedEvents), (NOW_MS - 300_001, PackedQuarantine)])
def test_events_are_measured_against_the_drivers_clock_at_the_begin_of_their_batch(
    begin_ms: int | None, kind: type
) -> None:
    (batch,) = replace(PRE_AGGREGATE, batch=KnownBatch(began_ms=begin_ms))(iter([record("User:a", 0)]))

    assert [type(unpack(packed)) for packed in batch["packed"].to_pylist()] == [kind]

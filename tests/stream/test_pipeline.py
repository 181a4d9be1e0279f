from datetime import datetime, timezone

from deltalake import DeltaTable

from quota.config import QuotaConfig
from state.events import Deployment
from tests.kits.stream_kit import START_MS, Stream, event

METRICS = "producer_id_metrics"


def test_a_flood_becomes_a_decision_and_a_steady_principal_does_not(stream: Stream) -> None:
    stream.quota(10)
    stream.batch(*[event(pid) for pid in range(50)], *[event(900 + n % 3, "User:alice", 1000 * n) for n in range(30)])
    stream.batch(event(1, at_ms=5000), event(77, at_ms=5000, client_id="loop"), event(900, "User:alice", 6000))

    stream.run()

    decisions = stream.rows("throttle_decisions")
    assert {(row["principal"], row["action"], row["quota_source"]) for row in decisions} == {
        ("User:mallory", "THROTTLE", "default")
    }
    assert decisions[0]["decided_at"] == datetime.fromtimestamp(START_MS / 1000, tz=timezone.utc)
    # The throttle has doubled with 2, 4 and 8 tokens below zero.
    begin_ms = [milliseconds * 1000 - number for number, milliseconds in enumerate((720, 1440, 2880))]
    assert [row["throttle_time_ms"] for row in decisions] == begin_ms
    assert decisions[-1]["refused_pids"] == 39
    metrics = stream.rows("producer_id_metrics")
    assert {row["principal"]: row["admitted_pids"] for row in metrics} == {"User:mallory": 11, "User:alice": 3}
    assert metrics[-1]["refused_pids"] == 40


def test_bad_records_are_quarantined_with_their_place_and_the_good_ones_go_on(stream: Stream) -> None:
    future = event(3, at_ms=10 * 60_000)
    bad = [b"not json", None, b"", b'{"principal": "User:a"}', event(2, "no-type"), event(-7), future, b"\xff\xfe"]
    stream.batch(event(1), *bad, event(2))

    stream.run()

    quarantined = {row["offset"]: row for row in stream.rows("quarantined_events")}
    assert sorted(quarantined) == list(range(1, 9))
    assert quarantined[1]["value"] == b"not json"
    assert "in the future" in str(quarantined[7]["reason"])
    assert {row["topic"] for row in quarantined.values()} == {"produce-events"}
    assert {row["record_timestamp"] for row in quarantined.values()} == {
        datetime.fromtimestamp(START_MS / 1000, tz=timezone.utc)
    }
    (row,) = stream.rows("producer_id_metrics")
    assert row["admitted_pids"] == 2


def test_nothing_is_written_when_there_is_nothing_to_say(stream: Stream) -> None:
    stream.batch(event(1))
    stream.run()
    before = DeltaTable(f"{stream.tables}/producer_id_metrics").version()
    stream.batch(event(1, at_ms=10))

    stream.run()

    assert DeltaTable(f"{stream.tables}/producer_id_metrics").version() == before


def test_client_ids_and_addresses_with_hostile_characters_reach_the_decision(stream: Stream) -> None:
    hostile = 'a"b\\c\n;principal:User:x\x00é'
    stream.quota(1)
    stream.batch(*[event(pid, client_id=hostile, address=hostile) for pid in range(5)])

    stream.run()

    (decision,) = stream.rows("throttle_decisions")
    assert dict(decision["client_ids"]) == dict(decision["addresses"]) == {hostile: 3}


def test_a_principal_silent_for_long_enough_is_forgotten_with_a_last_row_of_rate_0(stream: Stream) -> None:
    config = QuotaConfig(window_seconds=2, window_num=1, layer_count=2, late_grace_seconds=1, min_throttle_seconds=1)
    stream.deployment = Deployment(config, salt=7)

    with stream.running() as query:
        stream.batch(event(1, "User:silent"))
        later = iter(range(10_000, 10_000_000, 1000))

        def is_forgotten() -> bool:
            stream.batch(event(2, "User:alive", at_ms=next(later)))
            progress = query.lastProgress
            # A report of a trigger without records has no state operator.
            operators = progress.stateOperators if progress else []
            return bool(operators and operators[0].numRowsTotal == 1 and len(stream.rows(METRICS)) > 3)

        stream.wait_for(is_forgotten, query)

    rows = [row for row in stream.rows(METRICS) if row["principal"] == "User:silent"]
    assert [(row["rate"] > 0, row["active_pids"]) for row in rows] == [(True, 1), (False, 0)]

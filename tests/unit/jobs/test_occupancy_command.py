"""`pid-quota occupancy` on a hand-made census: its output and stored rows. Real brokers are in tests/broker."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from broker.occupancy.acl_owners import OwnerReason
from broker.occupancy.census import OwnersFrom, TakenCensus
from broker.occupancy.census_report import make_report
from broker.occupancy.sweep import BrokerExpiration, Unanswered
from jobs.occupancy import command
from jobs.occupancy.printing import report_dict
from lifecycle.occupancy import Census, Placement, ReplicaProducers, count_occupancy, owners_of
from tables.query.occupancy_rows import append, read_earlier, rows_of
from tables.query.sql_query import query
from tables.store import catalog
from tables.times import to_ms
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.warehouse_kit import CATALOG, SCHEMA, use
from tests.unit.jobs.table_rows import NOON

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
RunOccupancy = Callable[..., str]


def replica(
    broker: int,
    idle_hours: Sequence[float],
    *,
    topic: str = "orders",
    leads: bool = True,
    first_pid: int = 0,
    opened: Sequence[int] = (),
) -> ReplicaProducers:
    count = len(idle_hours)
    return ReplicaProducers(
        broker,
        topic,
        0,
        leads,
        np.arange(first_pid, first_pid + count),
        np.array([to_ms(NOON) - round(hours * HOUR_MS) for hours in idle_hours], np.int64),
        np.array([index in opened for index in range(count)], np.bool_),
    )


def taken(
    *replicas: ReplicaProducers,
    brokers: Sequence[int] = (1,),
    own: Sequence[int] = (),
    unanswered: Sequence[Unanswered] = (),
    owners_from: OwnersFrom = OwnersFrom.PLUGIN,
    now: datetime = NOON,
) -> TakenCensus:
    bound = {pid: ("User:mallory" if pid % 2 else "User:alice", to_ms(NOON) - 20 * HOUR_MS) for pid in range(1000)}
    placements = (Placement("orders", 0, brokers[0], tuple(brokers), frozenset(brokers)),)
    owners = owners_of(replicas, bound if owners_from is OwnersFrom.PLUGIN else {})
    census = Census(to_ms(now), replicas, placements, owners, dict.fromkeys(brokers, DAY_MS))
    expirations = tuple(BrokerExpiration(broker, DAY_MS, WEEK_MS, broker in own) for broker in brokers)
    return TakenCensus(census, expirations, tuple(unanswered), 3, owners_from)


def two_brokers() -> TakenCensus:
    idle = [0.2, 0.3, 2.0, 5.0, 30.0]
    return taken(replica(1, idle, opened=[3]), replica(2, idle, leads=False, opened=[3]), brokers=(1, 2), unanswered=())


@pytest.fixture
def occupancy(pid_quota: PidQuota, monkeypatch: pytest.MonkeyPatch) -> RunOccupancy:
    """Run the command on a census."""

    def run(found: TakenCensus, *arguments: object) -> str:
        monkeypatch.setattr(command, "take_census", lambda *_, **__: found)
        return printed(pid_quota("occupancy", "--bootstrap-server", "kafka:9092", *arguments))

    return run


# What it says


def test_json_contains_each_broker_now_and_later(occupancy: RunOccupancy) -> None:
    report = json.loads(occupancy(two_brokers(), "--json", "--max-pids-per-broker", 5))

    first, second = report["brokers"]
    assert (first["led_pids"], first["held_pids"], second["led_pids"], second["held_pids"]) == (5, 5, 0, 5)
    assert (first["expiration_ms"], first["transactional_id_expiration_ms"]) == (DAY_MS, WEEK_MS)
    assert (first["open_transactions"], first["rate_source"]) == (1, "hand-out times")
    assert first["limit_reached_at"] == NOON.isoformat()
    assert {row["principal"]: row["held_pids"] for row in report["occupancy"] if row["broker_id"] == 1} == {
        "User:alice": 3,
        "User:mallory": 2,
    }
    assert [death["dead"] for death in report["failovers"]] == [1, 2]
    assert report["failovers"][0]["survivors"][0]["led_pids"] == 5
    assert report["what_if"] is None


def test_the_time_a_limit_is_reached_is_shown_or_never(occupancy: RunOccupancy) -> None:
    # 40 were handed out 20 hours ago and none since: 40 a day. None of them expires soon.
    young = taken(replica(1, [0.5] * 40))

    def reached(limit: int) -> str | None:
        report = json.loads(occupancy(young, "--json", "--max-pids-per-broker", limit))
        moment: str | None = report["brokers"][0]["limit_reached_at"]
        return moment

    assert reached(42) == (NOON + timedelta(hours=1, minutes=12)).isoformat()
    assert reached(10_000) is None


def flood(
    seconds: int,
    *,
    yesterday: int = 40,
    expiration_ms: int = DAY_MS,
    check_ms: int = 600_000,
    down: dict[int, str] | None = None,
) -> TakenCensus:
    """A producer id a second up to now, beside some (forty) of 20 hours ago."""
    now_ms = to_ms(NOON)
    times = np.concatenate([np.full(yesterday, now_ms), now_ms - 1000 * np.arange(seconds)])
    pids = np.arange(len(times))
    one = ReplicaProducers(1, "orders", 0, True, pids, times, np.zeros(len(times), np.bool_))
    bound = {pid: ("User:m", now_ms - 20 * HOUR_MS if pid < yesterday else int(times[pid])) for pid in pids.tolist()}
    placements = (Placement("orders", 0, 1, (1, 2), frozenset({1})),)
    census = Census(now_ms, (one,), placements, owners_of((one,), bound), {1: expiration_ms}, {1: check_ms})
    settings = BrokerExpiration(1, expiration_ms, WEEK_MS, False, check_ms)
    return TakenCensus(census, (settings,), (), 3, OwnersFrom.PLUGIN, down or {})


def test_in_a_young_flood_the_higher_rate_gives_the_time_and_both_rates_are_shown(occupancy: RunOccupancy) -> None:
    (broker,) = json.loads(occupancy(flood(120), "--json", "--max-pids-per-broker", 760))["brokers"]
    lately, today = broker["forecasts"]

    assert (lately["pids_per_hour"], today["pids_per_hour"]) == (pytest.approx(3600, rel=0.02), 8)
    assert (lately["rate_pids"], lately["rate_seconds"], lately["rate_error"]) == (
        120,
        119,
        pytest.approx(0.09, abs=0.01),
    )
    # The broker has the time of the higher rate: 600 more take 10 minutes, not 3 days.
    assert {name: broker[name] for name in lately} == lately
    assert lately["limit_reached_at"] == (NOON + timedelta(minutes=10)).isoformat()
    assert today["limit_reached_at"] is None
    report = occupancy(flood(120), "--max-pids-per-broker", 760)
    for words in (
        "an hour by hand-out times (120 in 119 s, ± 9%), faster than today, if it continues",
        "at today's 8 an hour by hand-out times (160 in 20 h",
        "reaches 760: never",
    ):
        assert words in report


def test_a_broker_that_is_down_stays_in_the_list(occupancy: RunOccupancy) -> None:
    found = flood(60, down={2: "it is not among the living"})
    assert json.loads(occupancy(found, "--json"))["down"] == [{"broker_id": 2, "reason": "it is not among the living"}]
    report = occupancy(found)
    assert "NO ANSWER: broker 2, its producer ids are unknown: it is not among the living" in report
    assert "DOWN" in report


def test_a_what_if_shows_what_it_frees_the_owners_and_the_commands(occupancy: RunOccupancy) -> None:
    report = json.loads(occupancy(two_brokers(), "--json", "--expiration-ms", 3_600_000))["what_if"]

    assert [(each["broker_id"], each["freed_pids"], each["kept_open"]) for each in report["freed"]] == [
        (1, 1, 1),
        (2, 1, 1),
    ]
    assert report["lost"] == [{"principal": "User:alice", "producers": 1, "alive": 0, "long_lived": 1, "silent": 0}]
    assert report["commands"] == [
        "kafka-configs.sh --bootstrap-server kafka:9092 --entity-type brokers --entity-default --alter "
        "--add-config producer.id.expiration.ms=3600000"
    ]


def test_an_expiration_below_the_delivery_timeout_is_refused_before_any_broker_is_asked(
    pid_quota: PidQuota, occupancy: RunOccupancy
) -> None:
    err = one_error(pid_quota("occupancy", "--bootstrap-server", "127.0.0.1:1", "--expiration-ms", 119_999), 2)
    assert "--expiration-ms 119999 is below the default of delivery.timeout.ms, 120000" in err
    assert "what_if" in occupancy(two_brokers(), "--json", "--expiration-ms", 120_000)


def test_only_an_expiration_that_frees_nothing_on_any_broker_is_said_to_free_nothing(occupancy: RunOccupancy) -> None:
    uneven = taken(replica(1, [0.2, 5.0]), replica(2, [0.2], leads=False), brokers=(1, 2))

    assert "frees nothing more" not in occupancy(uneven, "--expiration-ms", HOUR_MS)
    assert "an expiration of 10 h frees nothing more" in occupancy(uneven, "--expiration-ms", 10 * HOUR_MS)


def test_hanging_transactions_and_topics_of_odd_times_are_named(occupancy: RunOccupancy) -> None:
    found = taken(
        replica(1, [5.0, 30.0, -1.0], opened=[0], topic="odd"), replica(1, [0.1], opened=[0], topic="busy", first_pid=9)
    )
    report = occupancy(replace(found, transactional_ids={0: "pay-1"}))
    as_json = json.loads(occupancy(found, "--json"))

    assert re.search(r"odd\b.*\b0\b.*\b2026-01-15 07:00 UTC.*\bpay-1", report)
    assert "odd: 1 entry of records older than their producer: each check expires them" in report
    assert "odd: 1 entry of records dated up to 2026-01-15 13:00 UTC" in report
    (hanging,) = as_json["hanging_transactions"]
    assert (hanging["producer_id"], hanging["partition"], hanging["transactional_id"]) == (0, 0, None)
    assert [(each["old_entries"], each["future_entries"]) for each in as_json["record_times"]] == [(1, 1)]


def test_without_the_plugin_it_says_in_one_line_what_it_cannot_see(occupancy: RunOccupancy) -> None:
    # given a cluster with ACLs that leave two producer ids without an owner, and one without ACLs
    unowned = {OwnerReason.SEVERAL: 1, OwnerReason.NO_ACL: 1000}
    with_acls = replace(taken(replica(1, [0.1]), owners_from=OwnersFrom.ACLS), unowned=unowned)
    without = taken(replica(1, [0.1]), owners_from=OwnersFrom.NOTHING)

    # then each report has one line about it
    line = "no plugin reports who uses the producer ids: "
    assert (
        f"{line}an owner is the only principal that ACLs let write a topic (super users need no ACL); producer ids "
        "without an owner: 1 (several principals may write), 1,000 (no ACL)\n"
    ) in occupancy(with_acls)
    assert f"{line}the owners are unknown, because the brokers show no ACLs\n" in occupancy(without)
    assert line not in occupancy(taken(replica(1, [0.1])))
    assert report_dict(make_report(with_acls, {}))["owners_from"] == "acls"


# What it keeps


def test_a_sweep_is_appended_and_the_view_shows_the_newest_of_each_broker(
    occupancy: RunOccupancy, tmp_path: Path
) -> None:
    long_ago = taken(replica(1, [0.5] * 8), replica(2, [0.5] * 3), brokers=(1, 2), now=NOON - timedelta(hours=5))
    occupancy(long_ago, "--tables", tmp_path)
    occupancy(taken(replica(1, [0.1, 3.0], opened=[1])), "--tables", tmp_path)

    rows = query(str(tmp_path), "TABLE occupancy_now", NOON + timedelta(seconds=60)).records()

    assert [(row["broker_id"], row["principal"], row["held_pids"]) for row in rows] == [
        (2, "User:alice", 2),
        (1, "User:alice", 1),
        (1, "User:mallory", 1),
        (2, "User:mallory", 1),
    ]
    newest = rows[1]
    assert (newest["share_of_broker"], newest["age_seconds"], newest["expiration_ms"]) == (0.5, 60, DAY_MS)
    assert {row["principal"]: row["open_transactions"] for row in rows[1:3]} == {"User:alice": 0, "User:mallory": 1}
    assert {row["age_seconds"] for row in rows if row["broker_id"] == 2} == {5 * 3600 + 60}


def test_a_broker_that_holds_nothing_any_more_is_not_shown_with_what_it_held_before(
    occupancy: RunOccupancy, tmp_path: Path
) -> None:
    occupancy(taken(replica(1, [0.5] * 8), now=NOON - timedelta(hours=5)), "--tables", tmp_path)
    occupancy(taken(replica(1, [])), "--tables", tmp_path)
    assert query(str(tmp_path), "TABLE occupancy_now", NOON).rows == ()


def test_a_sweep_with_gaps_is_kept_but_gives_no_rate(tmp_path: Path) -> None:
    whole, gap = taken(replica(1, [0.5] * 10)), Unanswered(1, "audit", 0, "broker gone")
    for found in (whole, TakenCensus(whole.census, whole.expirations, (gap,), 3, OwnersFrom.PLUGIN)):
        rows = rows_of(found.census, count_occupancy(found.census), found.missing, found.brokers)
        append(str(tmp_path), rows)

    (earlier,) = read_earlier(str(tmp_path), NOON + timedelta(hours=2))[1]

    assert (earlier.age_ms, earlier.held_pids, earlier.idle_hours) == (2 * HOUR_MS, 10, (10,))
    assert read_earlier(str(tmp_path), NOON + timedelta(hours=25)) == {}


def test_a_broker_that_did_not_answer_at_all_gets_no_row_and_keeps_its_last_one() -> None:
    gone = taken(brokers=(1, 2), unanswered=[Unanswered(2, "orders", 0, "no broker answers")])
    rows = rows_of(gone.census, [], gone.missing, gone.brokers)
    assert [(row["broker_id"], row["topic"], row["held_pids"]) for row in rows] == [(1, None, 0)]


def test_a_catalog_takes_the_rows_in_statements_that_are_not_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = use(monkeypatch)
    monkeypatch.setattr(catalog, "_ROWS_PER_INSERT", 20)
    found = taken(*(replica(broker, [0.5, 1.5]) for broker in range(1, 31)), brokers=tuple(range(1, 31)))
    tables = f"{CATALOG}.{SCHEMA}"

    append(tables, rows_of(found.census, count_occupancy(found.census), found.missing, found.brokers))

    inserts = [statement for statement in warehouse.statements if statement.startswith("INSERT")]
    assert len(inserts) == 3
    earlier = read_earlier(tables, NOON + timedelta(hours=1))
    assert {broker: [each.idle_hours for each in sweeps] for broker, sweeps in earlier.items()} == {
        broker: [(1, 1)] for broker in range(1, 31)
    }

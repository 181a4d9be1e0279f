"""`pid-quota why PID`, and the views of `pid_blocks`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tables.query.sql_query import query
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.kip_kit import ago, append_kip_tables, block_row, init, now
from tests.unit.jobs.table_rows import decision


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return tmp_path / "tables"


def as_json(pid_quota: PidQuota, pid: int, tables: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(pid_quota("why", pid, "--tables", tables, "--json")))
    return found


def violations(tables: Path) -> list[tuple[object, ...]]:
    return list(query(str(tables), "SELECT promise, first_producer_id, other FROM pid_block_violations", now()).rows)


def test_blocks_that_break_a_promise_are_rows(tables: Path) -> None:
    blocks = [block_row(0, ago(7200)), block_row(500, ago(60), broker_id=2), block_row(2000, ago(50), broker_epoch=4)]
    append_kip_tables(tables, blocks=blocks)
    assert violations(tables) == [("no overlap", 500, 1000), ("epoch not stale", 2000, 5)]


def test_the_same_ids_given_twice_are_an_overlap_even_to_the_same_broker(tables: Path) -> None:
    append_kip_tables(tables, blocks=[block_row(0, ago(7200)), block_row(0, ago(60))])
    assert violations(tables) == [("no overlap", 0, 1000)]


def test_a_block_below_earlier_ones_is_too_low_unless_clocks_may_differ(tables: Path) -> None:
    append_kip_tables(tables, blocks=[block_row(9000, ago(7200)), block_row(5000, ago(60))])
    assert violations(tables) == [("start >= last end", 5000, 10_000)]
    append_kip_tables(tables, blocks=[block_row(20_000, ago(59)), block_row(19_000, ago(55))])
    assert violations(tables) == [("start >= last end", 5000, 10_000)]


def test_the_rate_of_a_broker_is_that_of_the_known_time(tables: Path) -> None:
    append_kip_tables(
        tables,
        blocks=[
            block_row(0, ago(7200)),
            block_row(1000, ago(60), broker_epoch=9),
            block_row(2000, ago(50), broker_id=2),
        ],
    )
    select = "SELECT broker_id, blocks, restarts, round(pids_per_hour) FROM pid_block_burn ORDER BY broker_id"
    assert query(str(tables), select, now()).rows == ((1, 2, 1, 1000), (2, 1, 0, 500))


def test_its_broker_and_its_first_user_are_shown(pid_quota: PidQuota, tables: Path) -> None:
    append_kip_tables(
        tables,
        blocks=[block_row(122_000, ago(90)), block_row(123_000, ago(60), broker_id=7, broker_epoch=31)],
        inits=[init(ago(50), 123_456, principal="User:bob", client_id="x\x1b[2J")],
    )
    out = printed(pid_quota("why", 123_456, "--tables", tables))
    assert "producer id 123456 was issued by broker 7: block 123000 to 123999" in out
    assert "to User:bob, client x\\x1b[2J, from 10.0.0.1" in out
    found = as_json(pid_quota, 123_456, tables)
    assert (found["broker_id"], found["broker_epoch"], found["handed_out"]["principal"]) == (7, 31, "User:bob")


@pytest.mark.parametrize(
    ("pid", "message"),
    [(4, "it is older"), (9000, "made it up, or it was allocated after"), (2500, "no plugin has reported it")],
)
def test_an_id_outside_all_blocks_is_reported(pid_quota: PidQuota, tables: Path, pid: int, message: str) -> None:
    append_kip_tables(tables, blocks=[block_row(1000, ago(90)), block_row(3000, ago(60))])
    assert message in one_error(pid_quota("why", pid, "--tables", tables))


@pytest.mark.parametrize(
    ("pid", "fate", "message"),
    [
        (40, "handed out", "40 was issued by broker 1"),
        # A later block of the same life was in use already.
        (999, "handed out", "999 was issued by broker 1"),
        (1300, "lost", "1300 was never handed out: broker 1 lost it when it restarted"),
        (3005, "not yet handed out", "3005 is in a block of broker 1; the tables have no request that got it yet"),
        (2000, "not known", "2000 was given to broker 2; no plugin saw whether it was handed out"),
    ],
)
def test_the_fate_of_an_id_is_shown(pid_quota: PidQuota, tables: Path, pid: int, fate: str, message: str) -> None:
    restarted = block_row(3000, ago(30), broker_epoch=9)
    append_kip_tables(
        tables,
        blocks=[block_row(0, ago(90)), block_row(1000, ago(80)), block_row(2000, ago(70), broker_id=2), restarted],
        inits=[init(ago(60), 700), init(ago(50), 1200), init(ago(20), 3001)],
    )
    assert message in pid_quota("why", pid, "--tables", tables)[1]
    assert as_json(pid_quota, pid, tables)["fate"] == fate


def test_without_any_block_the_issuer_is_unknown(pid_quota: PidQuota, tables: Path) -> None:
    append_kip_tables(tables)
    assert "load the plugin into the brokers" in pid_quota("why", 1, "--tables", tables)[2]


def test_the_doctor_names_broken_promises_and_ids_that_no_controller_allocated(
    pid_quota: PidQuota, tables: Path
) -> None:
    samples = {"User:x": [1500, 2**62], "User:y": [1_001_999, 1_002_000]}
    append_kip_tables(
        tables,
        blocks=[block_row(0, ago(90)), block_row(1000, ago(60)), block_row(500, ago(50), broker_id=2)],
        decisions=[decision(who, ago(50), sample_pids=pids) for who, pids in samples.items()],
    )

    code, out, _ = pid_quota("doctor", "--tables", tables, "--json")

    found = [row["found"] for row in map(json.loads, out.splitlines()) if row["subject"] == "producer ids"]
    assert code == 1
    assert "that begins at 1000 breaks a promise of KIP-730: no overlap" in found[0]
    # Ids just beyond the end may be of blocks that no plugin has reported yet.
    assert [each.split(",")[0] for each in found[-2:]] == [
        "User:y uses producer id 1002000",
        f"User:x uses producer id {2**62}",
    ]

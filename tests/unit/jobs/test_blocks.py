"""`pid-quota blocks`, and the views of `pid_blocks` held to the pure model."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lifecycle.producer_id_blocks import Block, find_violations, pids_per_hour
from tables.query.sql_query import query
from tests.kits.command_kit import PidQuota, one_error, printed
from tests.kits.kip_kit import ago, append_kip_tables, block_row, init, now
from tests.unit.jobs.table_rows import decision


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return tmp_path / "tables"


def as_json(pid_quota: PidQuota, *arguments: object) -> tuple[int, Any, str]:
    code, out, err = pid_quota("blocks", "--json", *arguments)
    return code, json.loads(out), err


def test_burn_rate_and_losses_are_reported_per_broker(pid_quota: PidQuota, tables: Path) -> None:
    append_kip_tables(
        tables,
        blocks=[
            block_row(0, ago(7200)),
            block_row(1000, ago(3600), broker_id=2, broker_epoch=6),
            # The broker restarted.
            block_row(2000, ago(1800), broker_epoch=9),
            block_row(3000, ago(60), broker_id=2, broker_epoch=6),
        ],
        inits=[init(ago(7000), pid) for pid in (0, 1, 249)],
    )

    code, found, _ = as_json(pid_quota, "--tables", tables)

    first, second = found["brokers"]
    assert code == 0
    assert (first["blocks"], first["producer_ids"], first["restarts"], first["lost_pids"]) == (2, 2000, 1, 750)
    # The rows are of the moment in which this file was read.
    assert 500 < first["pids_per_hour"] <= 1000
    assert (second["broker_id"], second["blocks"], second["restarts"], second["lost_pids"]) == (2, 2, 0, 0)
    assert (found["next_producer_id"], found["violations"]) == (4000, [])
    assert found["hours_left"] == pytest.approx((2**63 - 4001) / found["pids_per_hour"])


def test_the_text_shows_a_table_the_end_of_all_ids_and_the_result(pid_quota: PidQuota, tables: Path) -> None:
    append_kip_tables(tables, blocks=[block_row(0, ago(7200)), block_row(1000, ago(60), broker_epoch=9)])
    out = printed(pid_quota("blocks", "--tables", tables))
    assert re.search(r"at this rate 2\^63 is reached in [12],\d{3},\d{3},\d{3},\d{3} years", out)
    assert "lost when broker 1 restarted: at most 1000 of block 0 to 999" in out
    assert "KIP-730 holds" in out


def test_without_any_block_the_output_says_so(pid_quota: PidQuota, tables: Path) -> None:
    append_kip_tables(tables)
    out = printed(pid_quota("blocks", "--tables", tables))
    assert "no block is known yet" in out
    assert "kept:" not in out
    assert "lost" not in out

    _, out, _ = pid_quota("blocks", "--tables", tables, "--json")
    found = json.loads(out)
    assert (found["seen"], found["next_producer_id"]) == (False, None)


def test_a_violation_is_an_alert_and_exit_code_1(pid_quota: PidQuota, tables: Path) -> None:
    blocks = [block_row(0, ago(7200)), block_row(500, ago(60), broker_id=2), block_row(2000, ago(50), broker_epoch=4)]
    append_kip_tables(tables, blocks=blocks)

    code, out, _ = pid_quota("blocks", "--tables", tables)
    assert code == 1
    assert "ALERT no overlap: broker 2 (epoch 5) was given 500 to 1499" in out
    assert "ALERT epoch not stale: broker 1 (epoch 4) was given 2000 to 2999" in out
    code, found, _ = as_json(pid_quota, "--tables", tables)
    assert (code, [item["promise"] for item in found["violations"]]) == (1, ["no overlap", "epoch not stale"])


def test_the_same_ids_given_twice_are_an_overlap_even_to_the_same_broker(pid_quota: PidQuota, tables: Path) -> None:
    append_kip_tables(tables, blocks=[block_row(0, ago(7200)), block_row(0, ago(60))])
    assert pid_quota("blocks", "--tables", tables)[0] == 1


def test_a_refused_id_that_was_never_allocated_is_reported_as_forged(pid_quota: PidQuota, tables: Path) -> None:
    samples = {"User:x": [1500, 2**62], "User:y": [1_001_999, 1_002_000], "User:\x1b[2J": [2**61]}
    append_kip_tables(
        tables,
        blocks=[block_row(0, ago(90)), block_row(1000, ago(60))],
        decisions=[decision(who, ago(50), sample_pids=pids) for who, pids in samples.items()],
    )
    out = printed(pid_quota("blocks", "--tables", tables))
    assert f"forged_pid: {2**62}, which no controller allocated, is used by User:x\n" in out
    assert "User:\\x1b[2J\n" in out
    _, found, _ = as_json(pid_quota, "--tables", tables)
    # Ids just beyond the end may be of blocks that no plugin has reported yet.
    assert [row["producer_id"] for row in found["forged_pids"]] == [1_002_000, 2**61, 2**62]


class TestOnePid:
    def test_its_broker_and_its_first_user_are_shown(self, pid_quota: PidQuota, tables: Path) -> None:
        append_kip_tables(
            tables,
            blocks=[block_row(122_000, ago(90)), block_row(123_000, ago(60), broker_id=7, broker_epoch=31)],
            inits=[init(ago(50), 123_456, principal="User:bob", client_id="x\x1b[2J")],
        )
        out = printed(pid_quota("blocks", "--tables", tables, "--pid", 123_456))
        assert "producer id 123456 was issued by broker 7: block 123000 to 123999" in out
        assert "to User:bob, client x\\x1b[2J, from 10.0.0.1" in out
        _, found, _ = as_json(pid_quota, "--tables", tables, "--pid", 123_456)
        assert (found["broker_id"], found["broker_epoch"], found["handed_out"]["principal"]) == (7, 31, "User:bob")

    @pytest.mark.parametrize(
        ("pid", "message"),
        [(4, "it is older"), (9000, "made it up, or it was allocated after"), (2500, "no plugin has reported it")],
    )
    def test_an_id_outside_all_blocks_is_reported(
        self, pid_quota: PidQuota, tables: Path, pid: int, message: str
    ) -> None:
        append_kip_tables(tables, blocks=[block_row(1000, ago(90)), block_row(3000, ago(60))])
        assert message in one_error(pid_quota("blocks", "--tables", tables, "--pid", pid))

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
    def test_the_fate_of_an_id_is_shown(
        self, pid_quota: PidQuota, tables: Path, pid: int, fate: str, message: str
    ) -> None:
        restarted = block_row(3000, ago(30), broker_epoch=9)
        append_kip_tables(
            tables,
            blocks=[block_row(0, ago(90)), block_row(1000, ago(80)), block_row(2000, ago(70), broker_id=2), restarted],
            inits=[init(ago(60), 700), init(ago(50), 1200), init(ago(20), 3001)],
        )
        assert message in pid_quota("blocks", "--tables", tables, "--pid", pid)[1]
        assert as_json(pid_quota, "--tables", tables, "--pid", pid)[1]["fate"] == fate

    def test_without_any_block_the_issuer_is_unknown(self, pid_quota: PidQuota, tables: Path) -> None:
        append_kip_tables(tables)
        assert "load the plugin into the brokers" in pid_quota("blocks", "--tables", tables, "--pid", 1)[2]


HISTORIES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 2), st.integers(-1, 3), st.integers(0, 30)), unique=True, max_size=8
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HISTORIES)
def test_the_views_say_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[int, int, int, int]]
) -> None:
    tables = tmp_path_factory.mktemp("tables")
    rows = [
        block_row(500 * half, ago(120 - 3 * at), broker_id=broker, broker_epoch=epoch)
        for half, broker, epoch, at in history
    ]
    append_kip_tables(tables, blocks=rows)
    blocks = [
        Block(row["first_producer_id"], 1000, row["broker_id"], row["broker_epoch"], ms(row["allocated_at"]))
        for row in rows
    ]

    burned = query(str(tables), "SELECT broker_id, pids_per_hour FROM pid_block_burn", now()).rows
    alerts = query(str(tables), "SELECT promise, first_producer_id, other FROM pid_block_violations", now()).rows

    assert dict(burned) == pytest.approx(pids_per_hour(blocks, ms(now())))
    expected = [(found.promise, found.block.first, found.other) for found in find_violations(blocks)]
    assert sorted(alerts) == sorted(expected)


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)

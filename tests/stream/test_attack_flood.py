"""Floods: what others get out of the stream is what they get without the flood, and the state stays bounded."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quota.principals import OVERFLOW_PRINCIPALS
from streaming.batch.context import carried_before
from tests.kits.stream_kit import OTHERS, Stream, event, others

BATCHES = 3


@pytest.fixture(scope="module")
def quiet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """The run without an attack that the others are compared with."""
    stream = Stream(spark, tmp_path_factory.mktemp("quiet"))
    stream.quota(10)
    for batch in range(BATCHES):
        stream.batch(*others(batch))
    stream.run()
    assert any(row.get("action") == "THROTTLE" for row in stream.said_of("User:carol"))
    return stream


@pytest.fixture
def attacked(spark: SparkSession, tmp_path: Path) -> Stream:
    stream = Stream(spark, tmp_path, max_principals=20)
    stream.quota(10)
    return stream


def test_a_flood_of_new_pids_changes_nothing_for_others_and_its_state_stays_small(
    quiet: Stream, attacked: Stream
) -> None:
    for batch in range(BATCHES):
        flood = [event(10_000_000 + batch * 8000 + n, at_ms=batch * 20_000 + n) for n in range(8000)]
        attacked.batch(*flood[:4000], *others(batch), *flood[4000:])

    attacked.run()

    assert attacked.said_of(*OTHERS) == quiet.said_of(*OTHERS)
    of_mallory = [row for row in attacked.rows("producer_id_metrics") if row["principal"] == "User:mallory"]
    assert max(int(str(row["state_bytes"])) for row in of_mallory) < 4096
    assert of_mallory[-1]["new_pids_window"] == pytest.approx(24_000, rel=0.15)


def test_beyond_the_limit_principals_share_entries_that_are_reported_and_never_throttled(
    quiet: Stream, attacked: Stream
) -> None:
    attacked.quota(5, "known by name")
    forged = [f"User:forged-{number}" for number in range(1000)]
    for batch in range(BATCHES):
        mine = [event(batch * 1000 + n, name, batch * 20_000) for n, name in enumerate(forged)]
        named = [event(500_000 + n, "User:known by name", batch * 20_000) for n in range(10)]
        attacked.batch(*others(batch), *mine, *named)

    attacked.run()

    assert attacked.said_of(*OTHERS) == quiet.said_of(*OTHERS)
    held = set(attacked.state_rows())
    assert held >= {*OTHERS, "User:known by name", *OVERFLOW_PRINCIPALS}
    assert len(held) == 20 + 1 + len(OVERFLOW_PRINCIPALS)
    checkpoint = str(attacked.root / "checkpoint")
    assert len(carried_before(checkpoint, BATCHES).tracked) == 20 + 1
    throttled = {row["principal"] for row in attacked.rows("throttle_decisions")}
    assert throttled == {"User:carol", "User:known by name"}
    last = [row for row in attacked.rows("producer_id_metrics") if row["batch_id"] == BATCHES - 1]
    reported = sum(int(str(row["new_pids_window"])) for row in last if str(row["principal"]).startswith("overflow-"))
    assert reported == (1000 - 17) * BATCHES


def test_a_restart_knows_who_is_tracked(attacked: Stream) -> None:
    names = [f"User:early-{number}" for number in range(20)]
    attacked.batch(*[event(number, name) for number, name in enumerate(names)])
    attacked.run()
    attacked.batch(*[event(100 + number, name, 1000) for number, name in enumerate([*names, "User:late"])])

    attacked.run()

    assert "User:late" not in attacked.state_rows()
    assert {*names} <= {*attacked.state_rows()}


def test_principals_that_fit_again_are_tracked_and_not_punished_for_what_nobody_remembered(
    attacked: Stream,
) -> None:
    attacked.max_principals = 1
    attacked.batch(event(1, "User:first"), *[event(pid, "User:second") for pid in range(100, 150)])
    attacked.run()
    attacked.max_principals = 2
    attacked.batch(*[event(pid, "User:second", at_ms=60_000) for pid in range(100, 150)])

    attacked.run()

    assert attacked.rows("throttle_decisions") == []
    row = next(row for row in attacked.rows("producer_id_metrics") if row["principal"] == "User:second")
    assert (row["phase"], row["active_pids"]) == ("learning", 50)


def test_a_flood_of_bad_records_is_sampled_and_counted_and_others_go_on(quiet: Stream, attacked: Stream) -> None:
    bad = [b'{"principal": 7}', b"not json", event(1, "x" * 10_000)]
    for batch in range(BATCHES):
        attacked.batch(*others(batch), *[bad[number % 3] for number in range(3000)])

    attacked.run()

    assert attacked.said_of(*OTHERS) == quiet.said_of(*OTHERS)
    rows = attacked.rows("quarantined_events")
    assert len(rows) == BATCHES * (1000 + 2 + 1)
    counted = [str(row["reason"]) for row in rows if "are left out" in str(row["reason"])]
    assert [reason.split(" ")[0] for reason in counted] == ["1998"] * BATCHES
    assert "principal is not Type:name" in counted[0]
    assert max(len(row["value"]) for row in rows) <= 4096

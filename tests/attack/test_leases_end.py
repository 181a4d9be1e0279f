"""Promise (docs/enforcement.md): no lease outlives its end, whatever becomes of tables, topics and processes."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from kafka.protocol.admin import AlterClientQuotasRequest

from broker.kafka.client import RawAdmin
from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaChange, QuotaEntity
from broker.kafka.quotas import ClientQuotas
from broker.local.local_broker import LocalBroker
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import wait_until
from tests.kits.enforce_kit import (
    EnforcerProcess,
    actions,
    decide,
    end_orders,
    enforcing,
    killed_after,
    quotas_of,
    release,
)
from wire.topics import ENFORCER_TOPIC

MALLORY = QuotaEntity("mallory")
BATCH = QuotaEntity("mallory", "mallory-batch")
THROTTLED = {REQUEST_PERCENTAGE: 0.01}
BEFORE = {REQUEST_PERCENTAGE: 50.0}

QUOTA = f'"{REQUEST_PERCENTAGE}"'
FORGED = (
    '{"recorded_at_ms":1,"reason":"","lease":{"lease_id":"%s","principal":"User:x","target":{"lever":%s,"entity":%s},'
    '"until_ms":%s,"decision_id":"d","state":"in_force","set_ms":0,"value":%s,"previous":null},"enforcer":""}'
)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    create_missing(str(folder))
    return folder


@pytest.fixture
def quotas(broker: LocalBroker) -> Iterator[ClientQuotas]:
    """Client quotas of the shared broker; mallory has one of 50 by an admin."""
    end_orders(broker)
    with ClientQuotas({"bootstrap_servers": broker.admin_servers}) as client:
        set_quota(client, MALLORY, 50.0)
        yield client
        set_quota(client, MALLORY, None)
        wait_until(lambda: client.describe_all() == {}, "the quotas are as before")


def set_quota(quotas: ClientQuotas, entity: QuotaEntity, value: float | None) -> None:
    assert quotas.alter([QuotaChange(entity, REQUEST_PERCENTAGE, value)]) == {entity: None}
    wait_until(lambda: quotas.describe(entity).get(REQUEST_PERCENTAGE) == value, f"{entity} has {value}")


def set_default_of_users(broker: LocalBroker, value: float | None) -> None:
    change = (REQUEST_PERCENTAGE, value or 0.0, value is None)
    admin = RawAdmin(bootstrap_servers=broker.admin_servers)
    try:
        (entry,) = admin.ask(
            AlterClientQuotasRequest(entries=[([("user", None)], [change])], validate_only=False)
        ).entries
        assert entry.error_code == 0
    finally:
        admin.close()


def wait_for(quotas: ClientQuotas, entity: QuotaEntity, expected: dict[str, float]) -> None:
    wait_until(lambda: quotas.describe(entity) == expected, f"{entity} has {expected}")


def throttle(quotas: ClientQuotas, tables: Path, process: EnforcerProcess, seconds: float) -> None:
    """Decide about mallory; wait until she is throttled, and the enforcer has written that down and looks again."""
    decide(tables, "User:mallory", seconds=seconds)
    process.wait_for("throttled")
    assert quotas.describe(MALLORY) == THROTTLED


def tear(tables: Path, table: str) -> None:
    """Leave a commit that was cut short, as a full disk or a killed writer on some storage does."""
    log = tables / table / "_delta_log"
    newest = max(int(file.stem) for file in log.glob("*.json"))
    (log / f"{newest + 1:020}.json").write_text('{"add":{"path":"part-0')


@pytest.fixture
def enforcer(broker: LocalBroker, tables: Path) -> Iterator[EnforcerProcess]:
    with killed_after(broker, tables, "--apply", "--no-narrow") as process:
        yield process


@pytest.mark.parametrize("table", ["throttle_decisions", pytest.param("enforcement_actions", marks=pytest.mark.slow)])
def test_a_lease_ends_in_time_although_a_table_is_torn(
    quotas: ClientQuotas, tables: Path, enforcer: EnforcerProcess, table: str
) -> None:
    throttle(quotas, tables, enforcer, 10)

    tear(tables, table)

    wait_for(quotas, MALLORY, BEFORE)
    enforcer.wait_for("trying again", table)
    assert enforcer.end() == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("table", ["throttle_decisions", "enforcement_actions"])
def test_a_lease_ends_in_time_after_a_restart_on_a_torn_table(
    broker: LocalBroker, quotas: ClientQuotas, tables: Path, enforcer: EnforcerProcess, table: str
) -> None:
    throttle(quotas, tables, enforcer, 10)
    enforcer.end(signal.SIGKILL)
    tear(tables, table)

    with enforcing(broker, tables, "--apply"):
        wait_for(quotas, MALLORY, BEFORE)


def test_sigterm_restores_although_the_table_of_actions_is_torn(
    quotas: ClientQuotas, tables: Path, enforcer: EnforcerProcess
) -> None:
    throttle(quotas, tables, enforcer, 600)
    tear(tables, "enforcement_actions")
    enforcer.wait_for("trying again", "enforcement_actions")

    assert enforcer.end() == (0, "")

    wait_for(quotas, MALLORY, BEFORE)


@pytest.mark.slow
def test_a_folder_that_is_gone_ends_no_enforcer_and_keeps_no_lease(
    quotas: ClientQuotas, tables: Path, enforcer: EnforcerProcess
) -> None:
    throttle(quotas, tables, enforcer, 10)

    tables.rename(tables.with_name("elsewhere"))

    wait_for(quotas, MALLORY, BEFORE)
    enforcer.wait_for("trying again", "no table")
    assert enforcer.end() == (0, "")
    assert not list(tables.glob("*/_delta_log")), "nobody makes empty tables in its place"


@pytest.mark.slow
def test_the_value_before_is_restored_by_a_start_that_finds_no_tables(
    broker: LocalBroker, quotas: ClientQuotas, tables: Path, enforcer: EnforcerProcess
) -> None:
    throttle(quotas, tables, enforcer, 12)
    enforcer.end(signal.SIGKILL)
    tables.rename(tables.with_name("elsewhere"))

    with enforcing(broker, tables, "--apply") as second:
        second.wait_for("trying again", "no table")
        wait_for(quotas, MALLORY, BEFORE)
    assert not tables.exists()


@pytest.mark.parametrize(
    ("order", "is_killed"),
    [(["--release-all"], False), pytest.param(["--release", "mallory"], True, marks=pytest.mark.slow)],
    ids=["beside an enforcer", "without one"],
)
def test_the_kill_switch_needs_no_tables(
    broker: LocalBroker,
    quotas: ClientQuotas,
    tables: Path,
    enforcer: EnforcerProcess,
    order: list[str],
    is_killed: bool,
) -> None:
    throttle(quotas, tables, enforcer, 600)
    if is_killed:
        enforcer.end(signal.SIGKILL)
    tables.rename(tables.with_name("elsewhere"))

    release(broker, tables, *order)

    wait_for(quotas, MALLORY, BEFORE)


def test_rows_that_a_table_could_not_take_come_when_it_can(
    quotas: ClientQuotas, tables: Path, enforcer: EnforcerProcess
) -> None:
    throttle(quotas, tables, enforcer, 10)
    elsewhere = tables.with_name("elsewhere")
    tables.rename(elsewhere)
    wait_for(quotas, MALLORY, BEFORE)

    elsewhere.rename(tables)

    wait_until(lambda: actions(tables)[-2:] == ["restoring", "restored"], "the last rows")
    assert enforcer.end() == (0, "")


def program_of(folder: Path, *lines: str) -> list[str]:
    """`pid-quota` behind some lines of Python."""
    (folder / "program.py").write_text("\n".join([*lines, "from jobs.cli import main", "main()", ""]))
    return [str(folder / "program.py")]


def test_no_error_gets_out_of_the_enforcer_before_the_quotas_are_restored(
    broker: LocalBroker, quotas: ClientQuotas, tables: Path, tmp_path: Path
) -> None:
    # Given an enforcer with a mistake in it that nobody thought of, once it has throttled somebody.
    flag = tmp_path / "break"
    program = program_of(
        tmp_path,
        "import pathlib",
        "from broker.enforcement.stream_watch import StreamWatch",
        "check = StreamWatch.check",
        "def broken(self, now_ms):",
        f"    if pathlib.Path({str(flag)!r}).exists(): raise IndexError('list index out of range')",
        "    check(self, now_ms)",
        "StreamWatch.check = broken",
    )
    with killed_after(broker, tables, "--apply", "--no-narrow", program=program) as process:
        throttle(quotas, tables, process, 600)

        flag.touch()

        code, errors = process.wait()
    assert (code, errors.count("\n")) == (1, 1)
    assert "IndexError" in errors
    wait_for(quotas, MALLORY, BEFORE)


@pytest.mark.slow
def test_a_clock_that_is_set_back_a_day_makes_no_lease_longer(
    broker: LocalBroker, quotas: ClientQuotas, tables: Path, tmp_path: Path
) -> None:
    # Given an enforcer whose machine's clock is set back during a lease.
    flag = tmp_path / "back"
    clock = f"time.time = lambda: now() - 86_400 * os.path.exists({str(flag)!r})"
    program = program_of(tmp_path, "import os, time", "now = time.time", clock)
    process = EnforcerProcess(broker, tables, "--apply", "--no-narrow", program=program)
    process.start()
    try:
        process.wait_for("lock", "holding")
        throttle(quotas, tables, process, 20)

        flag.touch()

        process.wait_for("restored")
        # Neither a look at the table nor a restart brings it back.
        decide(tables, "User:eve", seconds=30)
        wait_until(lambda: len(process.notices_of("throttled")) == 2, f"eve's lease comes: {process.notices}")
        wait_until(lambda: len(process.notices_of("restored")) == 2, f"eve's lease goes: {process.notices}")
    finally:
        assert process.end() == (0, "")
    with enforcing(broker, tables, "--apply"):
        pass
    assert actions(tables).count("applying") == 2
    assert quotas.describe(MALLORY) == BEFORE


def test_a_value_of_ours_without_a_lease_is_said_with_the_way_to_clear_it(
    broker: LocalBroker, quotas: ClientQuotas, tables: Path
) -> None:
    set_quota(quotas, BATCH, 0.01)

    with enforcing(broker, tables, "--apply") as enforcer:
        enforcer.wait_for("alert", "--entity-name mallory --entity-type clients --entity-name mallory-batch")

    assert quotas.describe(BATCH) == THROTTLED
    set_quota(quotas, BATCH, None)


def test_a_tighter_quota_of_the_user_is_never_loosened_by_a_lease_on_a_client_id(
    broker: LocalBroker, quotas: ClientQuotas, tables: Path
) -> None:
    set_quota(quotas, MALLORY, 0.005)

    with enforcing(broker, tables, "--apply") as enforcer:
        decide(tables, "User:mallory", client_ids=[("mallory-batch", 20)])
        enforcer.wait_for("skipped", "is already 0.005")

    assert quotas_of(broker) == {MALLORY: {REQUEST_PERCENTAGE: 0.005}}


@pytest.mark.parametrize("client_id", ["other", "x" * 256], ids=["other", "cut"])
def test_no_quota_is_set_on_a_client_id_that_nobody_has(
    broker: LocalBroker, quotas: ClientQuotas, tables: Path, client_id: str
) -> None:
    with enforcing(broker, tables, "--apply") as enforcer:
        decide(tables, "User:mallory", client_ids=[(client_id, 20)])
        wait_for(quotas, MALLORY, THROTTLED)
        enforcer.wait_for("throttled")
        assert {entity.client_id for entity in quotas_of(broker)} == {None}


def test_forged_records_in_the_topic_of_leases_end_no_enforcer(
    broker: LocalBroker, quotas: ClientQuotas, tables: Path
) -> None:
    producer = Producer(broker.admin_config() | {"enable.idempotence": False})
    huge = "9" * 5000
    for key, value in {
        "lease/1": "{",
        "lease/2": f'{{"recorded_at_ms":{huge}}}',
        "lease/3": "\x00" * 100,
        "lease/4": FORGED % ("4", '"producer_byte_rate"', '{"user":"x"}', 1, 1.0),
        "lease/5": '{"q":' * 100_000,
        "lease/6": FORGED % ("6", QUOTA, '{"user":"mallory","client_id":"a","ip":"10.0.0.1"}', 1, 0.01),
        "lease/7": FORGED % ("7", QUOTA, '{"client_id":"a"}', 1, 0.01),
        "lease/8": FORGED % ("8", QUOTA, "{}", 2**63 - 1, 0.01),
        "lease/9": FORGED % ("9", '"hold"', '{"user":"mallory"}', 1, 0.01),
        "lease/10": FORGED % ("10", '"hold"', '{"user":"mallory"}', 2**63 - 1, "null"),
        "release/User:\ud83d\ude00": "null",
    }.items():
        producer.produce(ENFORCER_TOPIC, key=key.encode("utf-8", "surrogatepass"), value=value.encode())
    assert producer.flush(60) == 0

    with enforcing(broker, tables, "--apply", "--no-narrow") as enforcer:
        decide(tables, "User:mallory")
        wait_for(quotas, MALLORY, THROTTLED)
    # Kafka refuses what an entity of these would be, for ever: an enforcer would never be done.
    assert "trying again" not in {notice["action"] for notice in enforcer.notices}


@pytest.mark.slow
def test_a_lease_ends_in_time_although_its_topic_is_deleted_and_no_broker_makes_topics(
    jars: Path, tmp_path: Path, tables: Path
) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars, auto_create_topics_enable="false") as broker:
        enforcer = EnforcerProcess(broker, tables, "--apply", "--no-narrow")
        enforcer.start()
        try:
            enforcer.wait_for("lock", "holding")
            decide(tables, "User:mallory", seconds=10)
            enforcer.wait_for("throttled")

            admin = AdminClient(broker.admin_config() | {"log_level": 0})
            admin.delete_topics([ENFORCER_TOPIC])[ENFORCER_TOPIC].result()

            wait_until(lambda: quotas_of(broker) == {}, "the lease has ended")
            enforcer.wait_for("trying again", "was deleted and has been recreated")
            decide(tables, "User:mallory", seconds=600)
            enforcer.wait_for("throttled")
        finally:
            ended = enforcer.end()
        assert ended == (0, "")
        assert quotas_of(broker) == {}


@pytest.mark.slow
def test_a_quota_that_slows_the_enforcer_itself_keeps_no_lease(
    broker: LocalBroker, quotas: ClientQuotas, tables: Path, enforcer: EnforcerProcess
) -> None:
    throttle(quotas, tables, enforcer, 10)
    set_default_of_users(broker, 0.005)
    try:
        wait_for(quotas, MALLORY, BEFORE)
    finally:
        set_default_of_users(broker, None)


@pytest.mark.slow
def test_rows_that_name_nobody_or_no_time_keep_nobody_from_being_throttled(
    quotas: ClientQuotas, tables: Path, enforcer: EnforcerProcess
) -> None:
    for column in ("principal", "decided_at", "throttled_until", "action", "decision_id"):
        row: dict[str, Any] = {"principal": "User:nobody"} | {column: None}
        decide(tables, **row)
    throttle(quotas, tables, enforcer, 10)
    enforcer.wait_for("alert", "rows of throttle_decisions that are incomplete")
    wait_for(quotas, MALLORY, BEFORE)
    assert enforcer.end() == (0, "")


def add_partitions(broker: LocalBroker) -> None:
    admin = AdminClient({**broker.admin_config()})
    admin.create_partitions([NewPartitions(ENFORCER_TOPIC, 3)])[ENFORCER_TOPIC].result()
    wait_until(lambda: len(admin.list_topics(ENFORCER_TOPIC).topics[ENFORCER_TOPIC].partitions) == 3, "3 partitions")


@pytest.mark.slow
def test_a_topic_of_the_lock_with_more_partitions_is_refused(jars: Path, tmp_path: Path, tables: Path) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        with enforcing(broker, tables, "--apply"):
            pass
        add_partitions(broker)

        process = EnforcerProcess(broker, tables, "--apply")
        process.start()
        code, errors = process.wait()

    assert code == 1
    assert "has 3 partitions, not 1" in errors


@pytest.mark.slow
def test_partitions_that_are_added_while_enforcers_run_make_no_second_holder(
    jars: Path, tmp_path: Path, tables: Path
) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        first = EnforcerProcess(broker, tables, "--apply", "--no-narrow")
        second = EnforcerProcess(broker, tables, "--apply", "--no-narrow")
        try:
            first.start()
            first.wait_for("lock", "holding")
            second.start()
            second.wait_for("lock", "waiting")
            add_partitions(broker)
            # A third one makes the group share its partitions out anew.
            with_three = EnforcerProcess(broker, tables, "--apply")
            with_three.start()
            assert with_three.wait()[0] == 1
            time.sleep(8)
            decide(tables, "User:mallory", seconds=600)
            wait_until(lambda: quotas_of(broker) == {MALLORY: THROTTLED}, "the quota")
            holders = [each for each in (first, second) if each.notices and holds(each)]
            assert len(holders) == 1
        finally:
            for each in (first, second):
                each.end()
        assert quotas_of(broker) == {}


def holds(process: EnforcerProcess) -> bool:
    return "holding" in [notice for notice in process.notices if notice["action"] == "lock"][-1]["why"]

"""The one Kafka user of pid-quota: its rights by ACLs or by pid.quota.writers, doctor, and the way out."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation, ResourceType

from broker.enforcement import by_hand
from broker.enforcement.hold_topic import HoldTopic
from broker.enforcement.model import Change
from broker.errors import HoldNotWrittenError
from broker.kafka.grants import Grants
from broker.kafka.own_rights import OwnRights
from broker.kafka.roles import run_rights
from broker.kafka.topics import admin_client, existing_topics
from broker.local.local_broker import LocalBroker
from jobs.cli import run
from jobs.output.terminal import WRONG_SETTING
from tables.query.sql_query import query
from tables.store.path_tables import create_missing
from tables.times import to_time
from tests.broker.test_hold_topics import DENIED, errors_of_writes
from tests.kits.admin_kit import allow, bound
from tests.kits.broker_kit import new_topic, produce, wait_for_report, wait_until
from tests.kits.plugin_kit import switch
from tests.kits.stream_command_kit import StreamCommand
from wire.holds import Hold
from wire.plugin_reports import AliveReport, StopReport
from wire.topics import HOLDS, OWN_TOPICS, PRODUCE_EVENTS, REPORTS

RUN, WRITER = "pid-quota", "enforcer"
USERS = {name: f"{name}-secret" for name in ("admin", "mallory", RUN, WRITER)}
GRANT = ("topics", "create", "--reader", f"User:{RUN}")
DELETE = ("topics", "delete", "--reader", f"User:{RUN}")
WRONG = "not-hers"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module", params=["true", "false"], ids=["open", "closed"])
def secured(
    request: pytest.FixtureRequest, jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalBroker]:
    """A broker that allows access without ACLs, and one that denies it."""
    settings: dict[str, Any] = {"allow_everyone_if_no_acl_found": request.param, "pid_quota_writers": f"User:{WRITER}"}
    folder = tmp_path_factory.mktemp("secured")
    with LocalBroker(folder, USERS, jars=jars, holds=True, **settings) as running:
        running.wait_for_plugin()
        yield running


@pytest.fixture
def command(secured: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command as a user with its settings file; returns exit code, output and errors.

    A failed test shows what the last command printed.
    """

    def call(user: str, *arguments: str, password: str | None = None) -> tuple[int, str, str]:
        servers = ("--bootstrap-server", secured.bootstrap_servers)
        capsys.readouterr()
        code = run([*arguments, *servers, "--command-config", str(settings_file(secured, tmp_path, user, password))])
        shown = capsys.readouterr()
        print(shown.out, shown.err)
        return code, shown.out, shown.err

    return call


@pytest.fixture
def granted(command: Command, secured: LocalBroker) -> Iterator[None]:
    """The rights of `topics create --reader`, during the test."""
    assert command("admin", *GRANT)[0] == 0
    try:
        wait_until(lambda: lacks(secured, RUN) == [], "the broker knows the rights")
        yield
    finally:
        grants = Grants(secured.admin_config())
        grants.remove(grants.plan(f"User:{RUN}"))


def settings_file(broker: LocalBroker, folder: Path, user: str, password: str | None = None) -> Path:
    settings = broker.client_config(user) | ({} if password is None else {"sasl.password": password})
    file = folder / f"{user}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if "bootstrap" not in name))
    return file


def is_open(broker: LocalBroker) -> bool:
    return "allow.everyone.if.no.acl.found=true" in broker.properties.read_text()


def lacks(broker: LocalBroker, user: str) -> list[str]:
    return [right.words for right in OwnRights(broker.client_config(user)).missing(run_rights())]


def rights_elsewhere(broker: LocalBroker, user: str, topic: str) -> list[set[AclOperation]]:
    """A user's operations on the cluster, a topic of others and groups of others."""
    admin = admin_client(broker.client_config(user))
    cluster = admin.describe_cluster(include_authorized_operations=True).result().authorized_operations
    asked = [admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)[topic]]
    groups = ["readers", "spark-kafka-source-1"]
    asked += [admin.describe_consumer_groups([each], include_authorized_operations=True)[each] for each in groups]
    return [
        set(cluster or ()),
        *(set() if each.exception() else set(each.result().authorized_operations or ()) for each in asked),
    ]


def verdicts(output: str) -> dict[str, str]:
    """The verdict on each subject of the doctor."""
    return {line["subject"]: line["verdict"] for line in map(json.loads, output.splitlines())}


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor",),
        ("topics", "create", "--dry-run"),
        ("plugin", "load"),
        ("stream", "--tables", "tables", "--checkpoint", "checkpoint"),
        ("release", "User:mallory"),
        ("hold", "User:mallory"),
        ("occupancy",),
    ],
)
def test_a_wrong_password_is_called_a_wrong_password(
    command: Command, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    create_missing("tables")
    code, _, error = command("mallory", *arguments, password=WRONG)
    assert code == 1
    assert "refuse the login" in error
    assert "check user name, password and mechanism in --command-config" in error
    assert WRONG not in error


def test_a_dry_run_prints_kafka_s_own_commands_and_changes_nothing(
    command: Command, secured: LocalBroker, tmp_path: Path
) -> None:
    before = lacks(secured, RUN)
    code, out, _ = command("admin", *GRANT, "--dry-run")
    assert code == 0
    login = f"--bootstrap-server {secured.bootstrap_servers} --command-config {tmp_path / 'admin.properties'}"
    begin = f"kafka-acls.sh {login} --add --allow-principal User:{RUN} --operation Read"
    resources = [f"--topic {name}" for name in (PRODUCE_EVENTS, REPORTS, HOLDS)]
    resources.append("--group pid-quota --resource-pattern-type prefixed")
    *topics, first, second, third, fourth = out.splitlines()
    assert [first, second, third, fourth] == [f"{begin} {each}" for each in resources]
    assert all(": exists, " in each for each in topics)
    assert lacks(secured, RUN) == before


@pytest.mark.parametrize("name", ["User:*", "User:ANONYMOUS", "User:a;User:b"])
def test_a_principal_that_is_not_one_user_is_refused(command: Command, name: str) -> None:
    for subcommand in ("create", "delete"):
        code, out, error = command("admin", "topics", subcommand, "--reader", name)
        assert (code, out) == (2, "")
        assert "is not one user" in error


def test_without_rights_a_command_names_them_and_what_grants_them(
    command: Command, secured: LocalBroker, tmp_path: Path
) -> None:
    if is_open(secured):
        assert lacks(secured, RUN) == []
        return
    tables = ("--tables", str(tmp_path / "tables"), "--checkpoint", str(tmp_path / "checkpoint"))
    code, _, error = command(RUN, "stream", *tables)
    assert code == WRONG_SETTING
    assert f"User:{RUN} lacks READ on topic produce-events, " in error
    assert f"run `pid-quota topics create --reader User:{RUN}`" in error

    code, out, _ = command(RUN, "doctor", "--json")
    assert code == 1
    assert verdicts(out)["rights"] == "wrong"


def test_a_second_grant_finds_the_first(command: Command, granted: None) -> None:
    code, out, _ = command("admin", *GRANT)
    assert code == 0
    assert sum(line.startswith(f"exists User:{RUN}: ") for line in out.splitlines()) == 4


def test_the_doctor_is_content_with_exactly_the_granted_rights_and_with_a_writer_s(
    command: Command, secured: LocalBroker, granted: None
) -> None:
    wait_for_report(secured, AliveReport, lambda _: True)
    for user in (RUN, WRITER):
        code, out, error = command(user, "doctor", "--json")
        assert code == 0, (out, error)
        subjects = ("brokers", "rights", "topics", "plugins", "authorizer", "clocks", "holds")
        assert verdicts(out) == dict.fromkeys(subjects, "ok")


def test_a_writer_holds_without_any_acl(secured: LocalBroker) -> None:
    assert by_hand.hold(secured.client_config(WRITER), "User:mallory", 60_000, "a test").held == ["User:mallory"]
    assert by_hand.release(secured.client_config(WRITER), "User:mallory", 1_000, "a test").held == []
    assert errors_of_writes(secured, WRITER) == {PRODUCE_EVENTS: DENIED, REPORTS: DENIED, HOLDS: None}


def test_only_brokers_writers_and_super_users_may_write_holds_whatever_acls_allow(
    secured: LocalBroker, granted: None
) -> None:
    kinds = (ResourceType.TOPIC, ResourceType.GROUP)
    for user in (RUN, "mallory"):
        with bound(secured, *(allow("*", f"User:{user}", kind, AclOperation.ALL) for kind in kinds)):
            with pytest.raises(HoldNotWrittenError, match=r"pid\.quota\.writers of the brokers names this user"):
                by_hand.hold(secured.client_config(user), "User:admin", 1_000, "a test")
            assert errors_of_writes(secured, user) == dict.fromkeys(OWN_TOPICS, DENIED)


def test_a_grant_changes_nobody_s_rights_on_anything_else(command: Command, secured: LocalBroker) -> None:
    topic = new_topic(secured, "orders")
    with bound(secured, allow(topic, "User:mallory", ResourceType.TOPIC, AclOperation.READ)):
        before = [rights_elsewhere(secured, user, topic) for user in ("mallory", RUN)]
        assert command("admin", *GRANT)[0] == 0
        try:
            wait_until(lambda: lacks(secured, RUN) == [], "the broker knows the rights")
            assert [rights_elsewhere(secured, user, topic) for user in ("mallory", RUN)] == before
            # Only those who read our own topics need the rights, too.
            assert len(lacks(secured, "mallory")) == len(run_rights())
        finally:
            grants = Grants(secured.admin_config())
            grants.remove(grants.plan(f"User:{RUN}"))


def test_occupancy_says_which_right_it_lacks(command: Command, secured: LocalBroker, granted: None) -> None:
    if is_open(secured):
        return
    code, _, error = command(RUN, "occupancy")
    assert code == WRONG_SETTING
    assert "DESCRIBE_CONFIGS on the cluster" in error
    configs = allow("kafka-cluster", f"User:{RUN}", ResourceType.BROKER, AclOperation.DESCRIBE_CONFIGS)
    hidden = "topics that brokers hide from this user: READ on all topics is needed"
    with bound(secured, configs):
        code, out, _ = command(RUN, "occupancy")
        assert (code, hidden in out) == (0, True)
        with bound(secured, allow("*", f"User:{RUN}", ResourceType.TOPIC, AclOperation.READ)):
            code, out, _ = command(RUN, "occupancy")
            assert (code, "NO ANSWER" in out) == (0, False)


@pytest.mark.slow
@pytest.mark.parametrize("user", [RUN, WRITER])
def test_the_stream_reads_all_topics_with_these_rights(
    secured: LocalBroker, granted: None, tmp_path: Path, user: str
) -> None:
    produce(secured.client_config("admin"), new_topic(secured, "orders"))
    login = ["--command-config", str(settings_file(secured, tmp_path, user))]
    stream = StreamCommand(tmp_path, secured.bootstrap_servers, PRODUCE_EVENTS, login)
    code, said = stream.run()
    assert code == 0, said
    now = to_time(round(time.time() * 1000))
    for sql in ("SELECT 1 FROM producer_id_metrics", "SELECT 1 FROM broker_status"):
        assert query(str(stream.tables), sql, now).rows, (sql, said)


def hold_on_mallory(broker: LocalBroker) -> None:
    """Write a hold of ten minutes."""
    with HoldTopic(broker.client_config(WRITER)) as topic:
        until_ms = round(time.time() * 1000) + 600_000
        hold = Hold(cluster_id=topic.state.cluster_id, hold_ms=600_000, until_ms=until_ms, writer="carol@host")
        topic.write([Change("User:mallory", hold)])


def ours(broker: LocalBroker) -> frozenset[str]:
    return OWN_TOPICS & existing_topics(admin_client(broker.admin_config())).keys()


def test_delete_leaves_a_cluster_as_it_was(command: Command, secured: LocalBroker, granted: None) -> None:
    hold_on_mallory(secured)
    code, _, error = command("admin", *DELETE)
    assert code == 1
    assert "the plugin of broker 1 runs, and would make its topics again: take pidquota.Reporter out of" in error
    assert ours(secured) == OWN_TOPICS

    switch(secured, on=False)
    try:
        wait_for_report(secured, StopReport, lambda _: True)
        code, out, _ = command("admin", *DELETE, "--dry-run")
        assert code == 0
        assert "would remove hold on User:mallory" in out
        assert "would remove topic produce-events and its records" in out
        assert f"would remove right User:{RUN}: READ on topic produce-events" in out
        assert ours(secured) == OWN_TOPICS
        assert lacks(secured, RUN) == []

        grants = Grants(secured.admin_config())
        grants.create(grants.plan("User:mallory"))
        assert command("admin", *DELETE)[0] == 0
        assert ours(secured) == frozenset()
        assert {each.action for each in grants.plan(f"User:{RUN}")} == {"missing"}
        # The same right of another user stays.
        assert {each.action for each in grants.plan("User:mallory")} == {"exists"}
        grants.remove(grants.plan("User:mallory"))
    finally:
        switch(secured, on=True)
        secured.wait_for_plugin()


def test_the_doctor_finds_what_is_broken_and_names_the_command_that_mends_it(
    command: Command, secured: LocalBroker
) -> None:
    code, out, _ = command("admin", "doctor", "--json", "--tables", "no-such-tables")
    assert (code, verdicts(out)["stream"]) == (1, "wrong")

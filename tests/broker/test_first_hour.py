"""A cluster with passwords and ACLs that denies what no ACL allows: rights, doctor, and the way out."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from broker.enforcement.hold_topic import HoldTopic
from broker.enforcement.model import Change
from broker.errors import HoldNotWrittenError
from broker.kafka.acls import Acls
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.grants import Grant, Grants
from broker.kafka.own_rights import OwnRights
from broker.kafka.roles import RIGHTS, Role
from broker.kafka.topics import admin_client
from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tables.store.path_tables import create_missing
from tests.kits.acl_kit import allow, bound
from tests.kits.broker_kit import reports_of, wait_for_report, wait_until
from tests.kits.plugin_kit import NO_PLUGIN, switch
from wire.holds import Hold, Release
from wire.plugin_reports import AliveReport, PluginState, StopReport
from wire.topics import OWN_TOPICS, PRODUCE_EVENTS

ROLES = ("broker", "stream", "operator")
USERS = {name: f"{name}-secret" for name in ("admin", "mallory", *ROLES)}
GRANTED = [each for name in ROLES for each in (f"--{name}-principal", f"User:{name}")]
WRONG = "not-hers"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def secured(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    folder = tmp_path_factory.mktemp("secured")
    settings: dict[str, Any] = {"metric_reporters": NO_PLUGIN, "allow_everyone_if_no_acl_found": "false"}
    # The plugin's authorizer lets brokers write its topics, whatever ACLs allow to others.
    of_brokers = allow("kafka-cluster", "User:broker", ResourceType.BROKER, AclOperation.CLUSTER_ACTION)
    with LocalBroker(folder, USERS, jars=jars, holds=True, **settings) as running, bound(running, of_brokers):
        yield running


@contextmanager
def plugin_in(broker: LocalBroker) -> Iterator[None]:
    """Load the plugin into the broker for the block."""
    switch(broker, on=True)
    try:
        broker.wait_for_plugin()
        yield
    finally:
        switch(broker, on=False)
        last = reports_of(broker, PluginState)[-1].run
        wait_for_report(broker, StopReport, lambda report: report.run == last)


@pytest.fixture
def command(secured: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command as a user with its settings file; returns exit code, output and errors.

    A failed test shows what the last command printed.
    """

    def call(user: str, *arguments: str, password: str | None = None) -> tuple[int, str, str]:
        file = tmp_path / f"{user}.properties"
        settings = secured.client_config(user) | ({} if password is None else {"sasl.password": password})
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if "bootstrap" not in name))
        servers = ("--bootstrap-server", secured.bootstrap_servers)
        capsys.readouterr()
        code = run([*arguments, *servers, "--kafka-config", str(file)])
        shown = capsys.readouterr()
        print(shown.out, shown.err)
        return code, shown.out, shown.err

    return call


@pytest.fixture
def installed(command: Command, secured: LocalBroker) -> Iterator[None]:
    """All topics and rights; none before and none after the test."""
    assert command("admin", "topics", "create", "--deny-by-default", *GRANTED)[0] == 0
    try:
        wait_until(lambda: lacks(secured, "stream", Role.STREAM) == [], "the broker knows the rights")
        yield
    finally:
        assert command("admin", "uninstall", "--apply", "--delete-topics", "--shared-rights", *GRANTED)[0] == 0


def lacks(broker: LocalBroker, user: str, role: Role) -> list[str]:
    return [right.words for right in OwnRights(broker.client_config(user)).missing(RIGHTS[role])]


def has_all(broker: LocalBroker, role: Role) -> bool:
    return lacks(broker, role.value, role) == []


def findings(output: str) -> dict[str, list[tuple[str, str, str]]]:
    """Verdict, text and remedy of each finding, by its subject."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for line in map(json.loads, output.splitlines()):
        found.setdefault(line["subject"], []).append((line["verdict"], line["found"], line["remedy"]))
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor",),
        ("topics", "describe"),
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
    assert "check user name, password and mechanism in --kafka-config" in error
    assert WRONG not in error


def test_a_dry_run_shows_topics_rights_and_kafka_s_own_commands_and_changes_nothing(
    command: Command, secured: LocalBroker
) -> None:
    code, out, _ = command("admin", "topics", "create", "--deny-by-default", "--dry-run", *GRANTED)
    assert code == 0
    assert "produce-events: missing" in out
    assert "missing User:broker: CREATE on topic pid-quota-reports" in out
    assert "missing User:operator: READ on all topics" in out
    line = "--add --allow-principal 'User:operator' --operation DescribeConfigs --cluster"
    assert f"kafka-acls.sh --bootstrap-server {secured.bootstrap_servers} {line}" in out
    assert PRODUCE_EVENTS not in admin_client(secured.client_config("admin")).list_topics(timeout=30).topics
    assert "DESCRIBE on the cluster" in lacks(secured, "operator", Role.OPERATOR)


@pytest.mark.parametrize("name", ["User:*", "User:", "User:ANONYMOUS"])
def test_a_principal_that_is_not_one_user_is_refused_before_anything_is_made(
    command: Command, secured: LocalBroker, name: str
) -> None:
    code, out, error = command("admin", "topics", "create", "--broker-principal", name)
    assert (code, out) == (2, "")
    assert "--broker-principal" in error
    assert PRODUCE_EVENTS not in admin_client(secured.client_config("admin")).list_topics(timeout=30).topics


def test_each_role_gets_all_its_rights_and_a_second_run_finds_them(
    command: Command, secured: LocalBroker, installed: None
) -> None:
    for role in (Role.BROKER, Role.STREAM):
        wait_until(partial(has_all, secured, role), f"the rights of the {role.value}")
        assert command(role.value, "doctor", "--role", role.value)[0] == 0
    assert len(lacks(secured, "mallory", Role.BROKER)) == len(RIGHTS[Role.BROKER])

    code, out, _ = command("admin", "topics", "create", "--deny-by-default", "--json", *GRANTED)
    assert code == 0
    assert {json.loads(line)["action"] for line in out.splitlines()} == {"exists"}


def test_where_brokers_may_allow_everybody_no_right_is_granted_that_would_lock_others_out(
    command: Command, secured: LocalBroker
) -> None:
    try:
        principals = ("--broker-principal", "broker", "--stream-principal", "stream")
        code, out, _ = command("admin", "topics", "create", *principals, "--operator-principal", "operator")
        assert code == 0
        assert "skipped User:operator: READ on all topics" in out
        assert "skipped User:operator: DESCRIBE on the cluster" in out
        assert "skipped User:stream: READ on groups spark-kafka-*" in out
        assert "granted User:broker: WRITE on topic produce-events" in out
        assert "--deny-by-default" in out
    finally:
        assert command("admin", "uninstall", "--apply", "--delete-topics", "--shared-rights", *GRANTED)[0] == 0


def test_commands_start_with_the_words_of_the_doctor(command: Command, installed: None, tmp_path: Path) -> None:
    tables = ("--tables", str(tmp_path / "tables"), "--checkpoint", str(tmp_path / "checkpoint"))
    code, _, error = command("mallory", "stream", *tables)
    assert code == 1
    assert "User:mallory lacks READ on topic produce-events" in error
    assert "pid-quota topics create --stream-principal User:mallory" in error


def test_the_doctor_finds_nothing_wrong_on_a_healthy_cluster(
    command: Command, secured: LocalBroker, installed: None
) -> None:
    with plugin_in(secured):
        run = reports_of(secured, PluginState)[-1].run
        wait_for_report(secured, AliveReport, lambda report: report.run == run)
        wait_until(lambda: lacks(secured, "operator", Role.OPERATOR) == [], "the operator's rights")
        code, out, error = command("operator", "doctor", "--json")
    found = findings(out)
    assert code == 0, (out, error)
    assert {"brokers", "plugin", "holds", "rights, operator", "topics", "plugins", "clocks"} <= found.keys()
    assert [each for each in found.values() if each[0][0] != "ok"] == []


def test_the_doctor_finds_what_is_broken_and_names_the_command_that_mends_it(command: Command) -> None:
    code, out, _ = command("admin", "doctor", "--json", "--tables", "no-such-tables")
    found = findings(out)
    assert code == 1
    assert found["topics"][0][::2] == ("wrong", "pid-quota topics create")
    assert found["plugin, broker 1"][0][0] == "wrong"
    assert found["stream"][0][0] == "wrong"

    code, out, _ = command("mallory", "doctor", "--json", "--role", "broker")
    assert code == 1
    rights = findings(out)["rights, broker"]
    assert len(rights) == len(RIGHTS[Role.BROKER])
    assert all(remedy.startswith("pid-quota topics create --broker-principal User:mallory") for _, _, remedy in rights)


def hold_on_mallory(broker: LocalBroker, *, writer_epoch: int | None = None) -> None:
    """Write a hold of ten minutes: by hand, or as a stream does."""
    until_ms = round(time.time() * 1000) + 600_000
    with HoldTopic(broker.client_config("admin")) as topic:
        cluster_id = topic.state.cluster_id
        hold = Hold(
            cluster_id=cluster_id, hold_ms=600_000, until_ms=until_ms, writer="carol@host", writer_epoch=writer_epoch
        )
        topic.write([Change("User:mallory", hold)])


def held(broker: LocalBroker) -> list[str]:
    with HoldTopic(broker.client_config("admin")) as topic:
        return [*topic.state.holds]


def test_uninstall_leaves_a_cluster_as_it_was(command: Command, secured: LocalBroker) -> None:
    def state() -> tuple[object, ...]:
        with KafkaAdmin(KafkaConfig(secured.client_config("admin")).kafka_python()) as admin:
            topics = sorted(admin_client(secured.client_config("admin")).list_topics(timeout=30).topics)
            ours = [name for name in topics if not name.startswith("__")]
            return ours, sorted(map(str, Acls(admin).for_writers()))

    before = state()
    assert command("admin", "topics", "create", "--deny-by-default", *GRANTED)[0] == 0
    with plugin_in(secured):
        hold_on_mallory(secured)

        code, out, _ = command("admin", "uninstall", "--delete-topics", *GRANTED)
        assert code == 0
        assert "by hand: right User:operator: READ on all topics, which may be older" in out
        assert "would remove hold on User:mallory" in out
        assert "would remove right User:broker: WRITE on topic produce-events" in out
        assert "by hand: topic produce-events, which the plugin of broker 1 makes: `pid-quota plugin unload`" in out
        assert "by hand: run `pid-quota plugin unload` first" in out
        assert "by hand: take pidquota.Reporter out of metric.reporters on broker 1" in out
        assert "by hand: set authorizer.class.name=" in out
        assert held(secured) == ["User:mallory"]

    assert command("admin", "uninstall", "--apply", "--delete-topics", "--shared-rights", *GRANTED)[0] == 0
    wait_until(lambda: state() == before, "the cluster is as before")


def test_uninstall_ends_holds_and_none_of_a_stream_that_would_hold_again(
    command: Command, secured: LocalBroker, installed: None
) -> None:
    hold_on_mallory(secured, writer_epoch=1)
    code, _, error = command("admin", "uninstall", "--apply")
    assert code == 1
    assert "stream carol@host holds principals, and would hold them again: start it without --enforce" in error
    assert held(secured) == ["User:mallory"]

    hold_on_mallory(secured)
    code, out, _ = command("admin", "uninstall", "--apply")
    assert code == 0
    assert "removed hold on User:mallory" in out
    assert held(secured) == []


def test_only_brokers_writers_and_super_users_may_write_holds_whatever_acls_allow(
    secured: LocalBroker, installed: None
) -> None:
    acls = [
        allow("*", "User:mallory", ResourceType.TOPIC, AclOperation.ALL),
        allow("pid-quota", "User:mallory", ResourceType.GROUP, AclOperation.READ),
    ]
    with bound(secured, *acls), HoldTopic(secured.client_config("mallory")) as topic:
        release = Release(cluster_id=topic.state.cluster_id, release_ms=1000, by="mallory")
        with pytest.raises(HoldNotWrittenError, match=r"pid\.quota\.writers of the brokers names this user"):
            topic.release("User:mallory", release)


def test_roles_may_share_a_user(command: Command, secured: LocalBroker) -> None:
    shared = [each for name in ROLES for each in (f"--{name}-principal", "User:mallory")]
    try:
        assert command("admin", "topics", "create", "--deny-by-default", *shared)[0] == 0
        # An ACL makes nobody a broker.
        wait_until(lambda: all(each.startswith("WRITE ") for each in lacks(secured, "mallory", Role.BROKER)), "rights")
        assert len(lacks(secured, "mallory", Role.BROKER)) == len(OWN_TOPICS)
        wait_until(lambda: lacks(secured, "mallory", Role.OPERATOR) == [], "the rights of the operator")
    finally:
        assert command("admin", "uninstall", "--apply", "--delete-topics", "--shared-rights", *shared)[0] == 0


def test_first_acls_on_topics_in_use_that_leave_out_a_role_are_refused(command: Command, secured: LocalBroker) -> None:
    try:
        assert command("admin", "topics", "create")[0] == 0
        code, _, error = command("admin", "topics", "create", "--operator-principal", "User:operator")
        assert code == 1
        assert "lock out the broker, stream" in error
        assert len(lacks(secured, "operator", Role.OPERATOR)) == len(RIGHTS[Role.OPERATOR])
    finally:
        assert command("admin", "uninstall", "--apply", "--delete-topics")[0] == 0


def test_uninstall_leaves_the_same_right_of_another_user_and_refuses_to_saw_off_its_own(
    command: Command, secured: LocalBroker, installed: None
) -> None:
    grants = Grants(secured.client_config("admin"), denies_by_default=True)
    others = grants.create(grants.plan({Role.STREAM: "User:mallory"}))
    wait_until(lambda: lacks(secured, "mallory", Role.STREAM) == [], "mallory may read")
    try:
        assert command("admin", "uninstall", "--apply", "--stream-principal", "User:stream")[0] == 0
        wait_until(lambda: lacks(secured, "stream", Role.STREAM) != [], "the stream may not")
        assert lacks(secured, "mallory", Role.STREAM) == []
        code, _, error = command("admin", "uninstall", "--apply", "--broker-principal", "User:admin")
        assert code == 2
        assert "would remove that user's own rights" in error
    finally:
        grants.remove([Grant(each.principal, each.right, "exists") for each in others])

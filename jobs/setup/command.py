"""The command `pid-quota topics`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from broker.errors import TopicError
from broker.kafka.acls import Acls
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.grants import Grant, Grants
from broker.kafka.roles import Role
from broker.kafka.topic_setup import DEFAULT_RETENTION_HOURS, TopicOutcome, TopicSetup, plan_topics
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from jobs.setup.principals import (
    BrokerPrincipal,
    OperatorPrincipal,
    StreamPrincipal,
    principals,
)
from wire.topics import EVENT_PARTITIONS

topics = typer.Typer(add_completion=False, no_args_is_help=True)

_RetentionOption = Annotated[int, typer.Option(min=1, help="Retention of the topics that are not compacted.")]
_SKIPPED = (
    "skipped: the brokers do not show allow.everyone.if.no.acl.found. If it is true, "
    "everybody has these rights where no ACL matches, and a first ACL would take them from all other users. "
    "If it is false, add --deny-by-default"
)


@topics.command()
def create(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions of produce-events.")] = EVENT_PARTITIONS,
    replication_factor: Annotated[
        int, typer.Option(help="Number of replicas of each topic; -1 uses the cluster's default.")
    ] = -1,
    retention_hours: _RetentionOption = DEFAULT_RETENTION_HOURS,
    alter: Annotated[bool, typer.Option("--alter", help="Correct settings that differ.")] = False,
    broker_principal: BrokerPrincipal = None,
    stream_principal: StreamPrincipal = None,
    operator_principal: OperatorPrincipal = None,
    deny_by_default: Annotated[
        bool,
        typer.Option(
            "--deny-by-default", help="Declare that brokers deny access that no ACL allows, if they do not show it."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only show missing topics and rights, and Kafka's own commands that add them."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create missing topics of pid-quota, and grant each role its rights. Existing topics change only with --alter.

    The plugin creates its topics, too, unless brokers have pid.quota.create.topics=false.
    """
    who = principals(broker_principal, stream_principal, operator_principal)
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    setup = TopicSetup(kafka.client())
    plans = plan_topics(partitions, retention_hours)
    grants = granting(kafka, deny_by_default=deny_by_default) if who else None
    # Read the ACLs before creating topics. If this user may not read ACLs, the command ends here.
    plan = grants.plan(who) if grants else []
    if grants and not deny_by_default:
        require_all_named(grants, plan, who, setup.describe(plans))
    if dry_run:
        _show(setup.describe(plans), as_json)
    else:
        _show(setup.create(plans, replication_factor=replication_factor, alter=alter), as_json)
        plan = grants.create(plan) if grants else []
    show_grants(plan, as_json)
    if dry_run and not as_json:
        for each in plan:
            if each.action == "missing":
                login = f" --command-config {kafka_config}" if kafka_config else ""
                output().print(printable(each.command(bootstrap_servers) + login), soft_wrap=True)


@topics.command()
def describe(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    retention_hours: _RetentionOption = DEFAULT_RETENTION_HOURS,
    as_json: JsonOption = False,
) -> None:
    """Show which topics of pid-quota exist and which settings differ. This command changes nothing."""
    setup = TopicSetup(KafkaConfig.load(bootstrap_servers, kafka_config).client())
    _show(setup.describe(plan_topics(retention_hours=retention_hours)), as_json)


def require_all_named(
    grants: Grants, plan: Sequence[Grant], who: Mapping[Role, str], topics_found: Sequence[TopicOutcome]
) -> None:
    """Raise `TopicError` if `plan` gives an existing topic its first ACLs and `who` lacks a role.

    If brokers allow access without ACLs, a topic's first ACLs lock out all other principals.
    """
    absent = [role.value for role in Role if role not in who]
    in_use = {outcome.name for outcome in topics_found if outcome.action != "missing"}
    first = [each for each in plan if each.action == "missing" and each.right.name in in_use]
    if absent and any(not grants.has_any(each.right) for each in first):
        msg = (
            f"these would be the first ACLs on topics in use, and lock out the {', '.join(absent)}: name the "
            "principals of all roles in one command (for the brokers, any super user fits if they are one), or add "
            "--deny-by-default if brokers deny access that no ACL allows"
        )
        raise TopicError(msg)


def granting(kafka: KafkaConfig, *, deny_by_default: bool) -> Grants:
    """Return the `Grants` of a cluster, which depend on the brokers' authorizers."""
    with KafkaAdmin(kafka.kafka_python()) as admin:
        denies_by_default = deny_by_default or Acls(admin).allows_without_acl() is False
    return Grants(kafka.client(), denies_by_default=denies_by_default)


def show_grants(plan: Sequence[Grant], as_json: bool) -> None:
    """Print each right and its outcome."""
    for each in plan:
        if as_json:
            print_json({"principal": each.principal, "right": each.right.words, "action": each.action})
        else:
            output().print(printable(f"{each.action} {each.words}"))
    if not as_json and any(each.action == "skipped" for each in plan):
        output().print(printable(_SKIPPED))


def _show(outcomes: Sequence[TopicOutcome], as_json: bool) -> None:
    for outcome in outcomes:
        if as_json:
            print_json(asdict(outcome))
            continue
        wrong = "; ".join(f"{each.setting} is {each.found}, not {each.wanted}" for each in outcome.differences)
        output().print(
            printable(f"{outcome.name}: {outcome.action}, {plural(outcome.partitions, 'partition')} {wrong}".rstrip())
        )

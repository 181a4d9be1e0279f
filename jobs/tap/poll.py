"""The command `pid-quota tap poll`."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from broker.kafka.config import KafkaConfig
from broker.tap.acl_owners import OwnerReason
from broker.tap.poll_placing import OwnerPatterns, PollOwners, PollPlacement, UnattributedTopic
from broker.tap.producer_poll import LedProducers, ProducerPoll
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile, TopicOption
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from jobs.services.stopping import stopped_by_signals
from wire.topics import PRODUCE_EVENTS

_REASONS = {
    OwnerReason.NO_ACL: "no ACL",
    OwnerReason.EVERYBODY: "everybody may write",
    OwnerReason.SEVERAL: "several principals may write",
    OwnerReason.NOBODY: "nobody may write",
    OwnerReason.UNREADABLE: "no right to describe ACLs (DESCRIBE on the cluster)",
}
_SUPER_USERS = (
    "owners by ACLs: super users' writes are attributed to other principals, since ACLs don't show super users"
)


def poll_producers(
    bootstrap_servers: BootstrapServers,
    seconds: Annotated[float, typer.Option("--poll-producers", min=1, help="Pause between rounds.")],
    owners: Annotated[
        Path | None,
        typer.Option(help="YAML or CSV file that maps patterns of topics or transactional.ids to principals."),
    ] = None,
    owners_from_acls: Annotated[
        bool,
        typer.Option(
            "--owners-from-acls",
            help="If ACLs allow only one principal to write a topic, it owns the topic's producer ids.",
        ),
    ] = False,
    topic: TopicOption = PRODUCE_EVENTS,
    kafka_config: KafkaConfigFile = None,
    as_json: JsonOption = False,
) -> None:
    """Count the producer ids of all partitions in rounds, and write produce events for ids with a known owner.

    Owners come from --owners, then from --owners-from-acls. Without either option, the command only counts.
    """
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    patterns = None if owners is None else OwnerPatterns.load(owners)
    stop = stopped_by_signals()
    poll = ProducerPoll(
        kafka,
        seconds,
        owners=PollOwners(patterns, from_acls=owners_from_acls) if patterns or owners_from_acls else None,
        topic=topic,
        report=lambda counts: _show(counts, as_json),
        report_placement=lambda placement: _show_placement(placement, as_json),
    )
    if owners_from_acls and not as_json:
        output().print(_SUPER_USERS, markup=False)
    poll.run(stop)
    if as_json:
        print_json(asdict(poll.counters))
    else:
        output().print(", ".join(f"{name} {count}" for name, count in asdict(poll.counters).items()), markup=False)


def _show(counts: Sequence[LedProducers], as_json: bool) -> None:
    for each in counts:
        if as_json:
            print_json(asdict(each))
        else:
            counts_of_it = f"{plural(each.producers, 'producer id')}, {each.in_transaction} in a transaction"
            output().print(printable(f"broker {each.broker_id}, {each.topic}: {counts_of_it}"))


def _show_placement(placement: PollPlacement, as_json: bool) -> None:
    if as_json:
        print_json(asdict(placement))
        return
    placed, of = placement.by_acls + placement.by_file, placement.producer_ids
    share = f" ({placed / of:.1%})" if of else ""
    how = f"{placement.by_acls} by ACLs, {placement.by_file} by the file"
    output().print(f"owners: {placed} of {plural(of, 'producer id')}{share}: {how}", markup=False)
    for each in placement.unattributed:
        more = [plural(each.more_topics, "more topic")] if each.more_topics else []
        examples = ", ".join([*map(_example, each.topics), *more])
        output().print(printable(f"  {each.producer_ids} without an owner, {_REASONS[each.reason]}: {examples}"))


def _example(topic: UnattributedTopic) -> str:
    more = [f"{topic.more_principals} more"] if topic.more_principals else []
    names = ", ".join([*topic.principals, *more])
    return f"{topic.topic} ({names})" if names else topic.topic

"""The command `pid-quota plugin load|unload`."""

from typing import Annotated, Literal

import typer

from broker.kafka.client import KafkaAdmin
from broker.kafka.reporters import switch_plugin
from jobs.errors import JobError
from jobs.kafka_login import kafka_login
from jobs.options import BootstrapServers, KafkaConfigFile
from jobs.output.terminal import output, printable


def plugin(
    action: Annotated[Literal["load", "unload"], typer.Argument(help="load or unload.", show_default=False)],
    bootstrap_servers: BootstrapServers,
    broker_ids: Annotated[
        list[int] | None, typer.Argument(metavar="BROKER_ID", help="Only these brokers.", show_default=False)
    ] = None,
    kafka_config: KafkaConfigFile = None,
) -> None:
    """Load the plugin into running brokers without a restart, or unload it: change the brokers' metric.reporters.

    The jar must have been on the class path when the brokers started (docs/plugin.md#on-running-brokers).
    Brokers without the plugin write no more events.
    """
    with KafkaAdmin(kafka_login(bootstrap_servers, kafka_config)).connect() as admin:
        changes = switch_plugin(admin, on=action == "load", broker_ids=broker_ids or None)
    for change in changes:
        already = "" if change.is_changed else " already"
        outcome = change.problem or f"metric.reporters={','.join(change.reporters)}{already}"
        output().print(printable(f"broker {change.broker_id}: {outcome}"))
    failed = [str(change.broker_id) for change in changes if change.problem]
    if failed:
        msg = f"brokers {', '.join(failed)} were not changed: see above"
        raise JobError(msg)

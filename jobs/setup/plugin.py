"""The commands `pid-quota plugin load` and `pid-quota plugin unload`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.reporters import switch_plugin
from jobs.errors import JobError
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable

plugin = typer.Typer(add_completion=False, no_args_is_help=True)

_IdsOption = Annotated[
    str | None, typer.Option(help="Change only these brokers, as 1,2,3. [default: all running brokers]")
]


@plugin.command()
def load(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    broker_ids: _IdsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load the plugin into running brokers without a restart: add it to the brokers' metric.reporters.

    The jar must have been on the class path when the brokers started (docs/plugin.md#on-running-brokers).
    """
    _switch(bootstrap_servers, kafka_config, broker_ids, as_json, on=True)


@plugin.command()
def unload(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    broker_ids: _IdsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Unload the plugin from running brokers, which then write no more events."""
    _switch(bootstrap_servers, kafka_config, broker_ids, as_json, on=False)


def _switch(servers: str, config: Path | None, ids: str | None, as_json: bool, *, on: bool) -> None:
    try:
        wanted = None if ids is None else [int(part) for part in ids.split(",")]
    except ValueError as error:
        msg = f"{ids!r} is not a list of node ids, such as 1,2,3"
        raise typer.BadParameter(msg, param_hint="--broker-ids") from error
    with KafkaAdmin(KafkaConfig.load(servers, config)).connect() as admin:
        changes = switch_plugin(admin, on=on, broker_ids=wanted)
    for change in changes:
        if as_json:
            print_json(asdict(change))
        else:
            already = "" if change.is_changed else " already"
            outcome = change.problem or f"metric.reporters={','.join(change.reporters)}{already}"
            output().print(printable(f"broker {change.broker_id}: {outcome}"))
    failed = [str(change.broker_id) for change in changes if change.problem]
    if failed:
        msg = f"brokers {', '.join(failed)} were not changed: see above"
        raise JobError(msg)

"""`pid-quota tap enable-logging` and `disable-logging`: set log levels of running brokers."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from broker.cluster.cluster_admin import ClusterAdmin
from broker.cluster.kafka_config import KafkaConfig
from broker.cluster.logging_levels import LoggingOutcome, switch_logging
from jobs.errors import JobError
from jobs.kafka_options import BootstrapServers, KafkaConfigFile
from jobs.tables_out import JsonOption
from jobs.terminal import output, printable

_IdsOption = Annotated[str | None, typer.Option(help="Only these brokers, as 1,2,3. [default: all that are up]")]
_ControllerOption = Annotated[
    bool,
    typer.Option("--controller", help="Also the request logger of controllers, for producer id blocks."),
]


class LoggingError(JobError):
    """Raised when a broker's log levels can't be set."""


def enable_logging(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    broker_ids: _IdsOption = None,
    controller: _ControllerOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also on brokers without the log settings of docs/broker-logging.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make running brokers log who produces with which producer id, until they restart.

    The brokers' log settings must define the appender (docs/broker-logging, which also states the cost).
    """
    _switch(bootstrap_servers, kafka_config, broker_ids, as_json, on=True, controller=controller, force=force)


def disable_logging(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    broker_ids: _IdsOption = None,
    controller: _ControllerOption = False,
    as_json: JsonOption = False,
) -> None:
    """Stop running brokers from logging it, until they restart: the taps see nothing from then on."""
    _switch(bootstrap_servers, kafka_config, broker_ids, as_json, on=False, controller=controller, force=False)


def _switch(
    servers: str, config: Path | None, ids: str | None, as_json: bool, *, on: bool, controller: bool, force: bool
) -> None:
    wanted = None if ids is None else _numbers(ids)
    with ClusterAdmin(KafkaConfig.load(servers, config).kafka_python()) as admin:
        outcomes = switch_logging(admin, on=on, broker_ids=wanted, controller=controller, force=force)
    for outcome in outcomes:
        if as_json:
            typer.echo(json.dumps(asdict(outcome)))
        else:
            output().print(printable(f"broker {outcome.broker_id}: {_said(outcome)}"))
    failed = [str(outcome.broker_id) for outcome in outcomes if outcome.problem]
    if failed:
        msg = f"logging was not switched on brokers {', '.join(failed)}: see above"
        raise LoggingError(msg)


def _said(outcome: LoggingOutcome) -> str:
    if outcome.problem:
        return outcome.problem
    changes = ", ".join(f"{logger} is {level}" for logger, level in outcome.changed.items())
    return changes or "nothing to change"


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        msg = f"{text!r} is not a list of node ids, such as 1,2,3"
        raise typer.BadParameter(msg, param_hint="--broker-ids") from error

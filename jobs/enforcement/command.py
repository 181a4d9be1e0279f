"""The commands `pid-quota release` and `pid-quota hold`: holds by hand."""

import getpass
import os
import re
import socket
from typing import Annotated

import typer

from broker.enforcement import by_hand
from broker.enforcement.by_hand import Obeyed
from jobs.kafka_login import kafka_login
from jobs.options import BootstrapServers, KafkaConfigFile
from jobs.output.terminal import output, printable
from jobs.principals import RUN_FOR_EACH, read_user
from quota.typed import typed
from tables.times import duration
from wire.holds import EVERYBODY, MAX_HOLD_MS, MAX_RELEASE_MS

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")
Principal = Annotated[str, typer.Argument(help="The whole principal, such as User:alice.")]


def release(
    bootstrap_servers: BootstrapServers,
    principal: Annotated[str | None, typer.Argument(help="The whole principal, such as User:alice.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Release everybody.")] = False,
    lasts: Annotated[str, typer.Option("--for", help="How long nobody holds them again, such as 30m or 1h.")] = "1h",
    kafka_config: KafkaConfigFile = None,
) -> None:
    """End a hold on all brokers, and keep the stream from holding again for a time. Ends when brokers have obeyed."""
    if everybody == (principal is not None):
        msg = "name one principal, such as User:alice, or give --all"
        raise typer.BadParameter(msg)
    whom = EVERYBODY if everybody else read_user(principal or "", RUN_FOR_EACH)
    lasts_ms = milliseconds(lasts, MAX_RELEASE_MS)
    kafka = kafka_login(bootstrap_servers, kafka_config)
    obeyed = by_hand.release(kafka.client(), whom, lasts_ms, _person())
    who = "everybody is" if everybody else f"{whom} is"
    _show(f"{who} released for {duration(lasts_ms / 1000)}", obeyed)


def hold(
    bootstrap_servers: BootstrapServers,
    principal: Principal,
    lasts: Annotated[str, typer.Option("--for", help="How long, at most 10m, such as 90s.")] = "10m",
    kafka_config: KafkaConfigFile = None,
) -> None:
    """Let a user's new producer ids wait on all brokers, whatever the user's quota. Ends when brokers have obeyed."""
    whom, lasts_ms = read_user(principal, RUN_FOR_EACH), milliseconds(lasts, MAX_HOLD_MS)
    kafka = kafka_login(bootstrap_servers, kafka_config)
    obeyed = by_hand.hold(kafka.client(), whom, lasts_ms, _person())
    _show(f"{whom} is on hold for {duration(lasts_ms / 1000)}", obeyed)


def milliseconds(text: str, most_ms: int) -> int:
    """Return a duration such as `90s`, `10m`, `1h` or `2d` in ms.

    Raises:
        BadParameter: If the text is no duration, or is longer than `most_ms`.

    Examples:
        >>> milliseconds("90s", 600_000)
        90000
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        msg = f"--for {text!r} is no duration: write a number and s, m, h or d, such as 30m"
        raise typer.BadParameter(msg)
    lasts_ms = int(found[1]) * _UNITS_MS[found[2]]
    if lasts_ms > most_ms:
        msg = f"--for {text} is longer than {duration(most_ms / 1000)}, the longest time that brokers accept"
        raise typer.BadParameter(msg)
    return lasts_ms


def _person() -> str:
    """Return who runs the command, for others to see."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a user without a name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _show(what: str, obeyed: Obeyed) -> None:
    brokers = ", ".join(map(str, obeyed.brokers))
    held = typed(obeyed.held) or "nobody"
    output().print(printable(f"{what}, confirmed by broker {brokers}. On hold now: {held}"), soft_wrap=True)

"""The options that name the Kafka user of each role."""

from typing import Annotated

import typer

from broker.kafka.roles import Role
from jobs.options import full_name

BrokerPrincipal = Annotated[
    str | None,
    typer.Option(
        help="The brokers' own principal, such as User:kafka, if it is no super user. Only it may write events."
    ),
]
StreamPrincipal = Annotated[str | None, typer.Option(help="Principal that may read events, such as User:stream.")]
OperatorPrincipal = Annotated[str | None, typer.Option(help="Principal that runs doctor, occupancy and why.")]


def principals(broker: str | None, stream: str | None, operator: str | None) -> dict[Role, str]:
    """Return the named principals by role. A name without a type is a user.

    Raises:
        BadParameter: If a name can't name a single user.
    """
    given = {
        Role.BROKER: broker,
        Role.STREAM: stream,
        Role.OPERATOR: operator,
    }
    named = {role: full_name(name.strip()) for role, name in given.items() if name is not None}
    for role, name in named.items():
        kind, _, user = name.partition(":")
        if not (kind and user) or user in ("*", "ANONYMOUS"):
            msg = f"--{role.value}-principal {name!r} is not one user: give the role its own, such as User:{role.value}"
            raise typer.BadParameter(msg)
    return named

"""Whom a throttle is set on: a user, a client id of a user, an ip, or the new producer ids of a user."""

from dataclasses import dataclass


@dataclass(frozen=True)
class QuotaEntity:
    """An entity of Kafka's client quotas, or of a hold. Names are bare: `alice`, not `User:alice`.

    Attributes:
        user: User name; None if the quota is not about a user.
        client_id: Client id of that user; None if the quota is for all of them.
        ip: Address of a client's host; None if the quota is not about one.
        is_hold: Whether it is about the user's new producer ids alone: a hold, and no client quota.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
    is_hold: bool = False

    def parts(self) -> list[tuple[str, str]]:
        """Return the entity as the protocol's pairs of type and name."""
        named = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return [(kind, name) for kind, name in named if name is not None]

    def __str__(self) -> str:
        r"""Return the entity in words.

        Examples:
            >>> str(QuotaEntity("alice", "app")), str(QuotaEntity(ip="10.0.0.1"))
            ("user 'alice', client id 'app'", "ip '10.0.0.1'")
        >>> str(QuotaEntity("alice", is_hold=True))
        "new producer ids of user 'alice'"
        """
        words = {"client-id": "client id"}
        named = ", ".join(f"{words.get(kind, kind)} {name!r}" for kind, name in self.parts())
        return f"new producer ids of {named}" if self.is_hold else named

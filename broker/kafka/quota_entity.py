"""Entities of Kafka's client quotas."""

from dataclasses import dataclass
from typing import Final

REQUEST_PERCENTAGE: Final = "request_percentage"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


@dataclass(frozen=True)
class QuotaEntity:
    """A user, one client id of a user, or an IP address. Names are bare: `alice`, not `User:alice`."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def parts(self) -> list[tuple[str, str]]:
        """Return the entity as the protocol's pairs of type and name."""
        named = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return [(kind, name) for kind, name in named if name is not None]

    def __str__(self) -> str:
        """Return the entity in words.

        Examples:
            >>> str(QuotaEntity("alice", "app")), str(QuotaEntity(ip="10.0.0.1"))
            ("user 'alice', client id 'app'", "ip '10.0.0.1'")
        """
        words = {"client-id": "client id"}
        return ", ".join(f"{words.get(kind, kind)} {name!r}" for kind, name in self.parts())


@dataclass(frozen=True)
class QuotaChange:
    """A change of a client quota. The value None removes the quota."""

    entity: QuotaEntity
    key: str
    value: float | None

"""Reads and writes holds on new producer ids, which are stored as ACLs (`wire.holds`)."""

import time
from collections.abc import Collection, Mapping
from typing import Any

from broker.errors import RequestRefusedError
from broker.kafka.acls import ANY_HOST, AUTHORIZER, USER, Acl, AclResource, Acls
from broker.kafka.client import KafkaAdmin
from broker.kafka.errors import Purpose
from wire.holds import HoldBinding, hold_binding

_PURPOSE = Purpose(
    "a hold", "ALTER, DESCRIBE and DESCRIBE_CONFIGS", "check that the brokers have an authorizer that keeps ACLs"
)
_TIMEOUT_MS = 10_000
_HEARD_S = 3.0


class HoldBindings(KafkaAdmin):
    """The holds of a cluster."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings, _PURPOSE, _TIMEOUT_MS, reconnects=True)
        self._acls = Acls(self)
        self._made_s: dict[HoldBinding, float] = {}
        """When we set each hold. A broker may not list a new hold yet."""

    def of_user(self, user: str) -> list[HoldBinding]:
        """Return a user's holds, even if expired, and the holds that we set in the last 3 s."""
        now_s = time.monotonic()
        self._made_s = {hold: made_s for hold, made_s in self._made_s.items() if now_s - made_s < _HEARD_S}
        return [*{*self._find(f"{USER}{user}"), *(hold for hold in self._made_s if hold.user == user)}]

    def all(self) -> list[HoldBinding]:
        """Return the holds of all users."""
        return self._find(None)

    def add(self, hold: HoldBinding) -> None:
        """Set a hold."""
        if hold.user in ("", "*", "ANONYMOUS"):
            msg = f"a hold on user {hold.user!r} is not allowed: it would hold everybody, or the brokers"
            raise RequestRefusedError(msg)
        self._acls.create([_acl(hold)])
        self._made_s[hold] = time.monotonic()

    def remove(self, holds: Collection[HoldBinding]) -> None:
        """Remove holds; skip holds that are gone."""
        if holds:
            self._acls.delete([_acl(hold) for hold in holds])
            for hold in holds:
                self._made_s.pop(hold, None)

    def authorizers(self) -> dict[int, str]:
        """Return the class of each broker's authorizer by broker id; empty without an authorizer."""
        found = {each: self.broker_settings(each) for each in self.brokers()}
        return {number: settings.get(AUTHORIZER, {}).get("value") or "" for number, settings in found.items()}

    def _find(self, principal: str | None) -> list[HoldBinding]:
        found = {
            hold_binding(each.principal.removeprefix(USER), each.name)
            for each in self._acls.find(AclResource.TOPIC, "write", principal)
            if each.principal.startswith(USER)
            and (each.permission, each.pattern, each.host) == ("deny", "literal", ANY_HOST)
        }
        return [hold for hold in found if hold is not None]


def _acl(hold: HoldBinding) -> Acl:
    return Acl(AclResource.TOPIC, hold.name, f"{USER}{hold.user}", "write")

"""Reads and writes holds on new producer ids: ACL bindings with telling names (`wire.holds`)."""

import time
from collections.abc import Collection, Mapping
from typing import Any

from broker.closing import Closing
from broker.errors import ClientQuotaRefusedError
from broker.kafka.acl_bindings import ANY_HOST, USER, AclBinding, AclBindings
from broker.kafka.broker_settings import AUTHORIZER, broker_settings
from broker.kafka.lazy_admin import TIMEOUT_MS
from wire.holds import HoldBinding, hold_binding

_HEARD_S = 3.0
"""Within that all brokers have heard of a change."""


class HoldBindings(Closing):
    """The holds of a cluster, over one connection that is opened when first needed and again after errors.

    Args:
        settings: Of a kafka-python client, with `bootstrap_servers`.
        timeout_ms: Until an answer is given up.
    """

    def __init__(self, settings: Mapping[str, Any], timeout_ms: int = TIMEOUT_MS) -> None:
        self._acls = AclBindings(settings, "a hold", timeout_ms)
        self._made_s: dict[HoldBinding, float] = {}
        """When we set which: a broker that has not heard of one yet does not list it."""

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._acls.close()

    def of_user(self, user: str) -> list[HoldBinding]:
        """Return the holds of a user, also those that are over, and what was set moments ago.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        now_s = time.monotonic()
        self._made_s = {hold: made_s for hold, made_s in self._made_s.items() if now_s - made_s < _HEARD_S}
        return [*{*self._find(f"{USER}{user}"), *(hold for hold in self._made_s if hold.user == user)}]

    def all(self) -> list[HoldBinding]:
        """Return the holds of all users; errors as of `of_user`."""
        return self._find(None)

    def add(self, hold: HoldBinding) -> None:
        """Set a hold; errors as of `of_user`."""
        if hold.user in ("", "*", "ANONYMOUS"):
            msg = f"a hold on user {hold.user!r} is never set: it would hold everybody, or the brokers"
            raise ClientQuotaRefusedError(msg)
        self._acls.create([_binding(hold)])
        self._made_s[hold] = time.monotonic()

    def remove(self, holds: Collection[HoldBinding]) -> None:
        """Remove holds; those that are gone are skipped. Errors as of `of_user`."""
        if holds:
            self._acls.delete([_binding(hold) for hold in holds])
            for hold in holds:
                self._made_s.pop(hold, None)

    def authorizers(self) -> dict[int, str]:
        """Return the class of each broker's authorizer, by broker id; empty for a broker without one.

        Errors as of `of_user`.
        """
        found = broker_settings(self._acls.admin)
        return {number: settings.get(AUTHORIZER) or "" for number, settings in found.items()}

    def _find(self, principal: str | None) -> list[HoldBinding]:
        found = {
            hold_binding(each.principal.removeprefix(USER), each.name)
            for each in self._acls.find("topic", "write", principal)
            if each.principal.startswith(USER) and _can_be_hold(each)
        }
        return [hold for hold in found if hold is not None]


def _can_be_hold(binding: AclBinding) -> bool:
    return (binding.permission, binding.pattern, binding.host) == ("deny", "literal", ANY_HOST)


def _binding(hold: HoldBinding) -> AclBinding:
    return AclBinding("topic", hold.name, f"{USER}{hold.user}", "write")

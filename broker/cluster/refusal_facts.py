"""Collects what tells whether refusals work on a cluster: settings of the brokers, ACLs, and two trials."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from broker.cluster.acl_bindings import AclBinding, AclBindings
from broker.cluster.broker_settings import broker_settings
from broker.cluster.refusal_bindings import HARDCODE

_GROUP_AUTHORIZATION_FAILED = 30
_PROBE = AclBinding("group", "pid-quota-probe", "User:pid-quota-probe", "read")
"""An ACL for a principal and a group that do not exist."""
_PROBE_S = 1.0
_PAUSE_S = 0.02


@dataclass(frozen=True)
class RefusalFacts:
    """What is known of a cluster.

    Attributes:
        settings: Settings by broker id; None for those that a broker hides.
        cluster: ACLs on the cluster.
        topics: ACLs on topics.
        has_hardcode: Whether there is a topic of that name, as far as we may see it.
        ordinary_on: Brokers on which our own user is no super user: they deny it what an ACL of others closes. None if
            that was not tried.
    """

    settings: Mapping[int, Mapping[str, str | None]]
    cluster: tuple[AclBinding, ...]
    topics: tuple[AclBinding, ...]
    has_hardcode: bool
    ordinary_on: frozenset[int] | None


class RefusalLook:
    """Looks at a cluster.

    Args:
        acls: Of the cluster, as the enforcer's user.
        may_try: Whether an ACL that concerns nobody may be set for a moment, to try whether our user is a super user.
    """

    def __init__(self, acls: AclBindings, *, may_try: bool) -> None:
        self._acls, self._may_try = acls, may_try

    def facts(self) -> RefusalFacts:
        """Return what is known now.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses a request.
            ClientQuotaUnavailableError: If a broker does not answer, or a right is missing.
        """
        settings = broker_settings(self._acls.admin)
        cluster, topics = tuple(self._acls.find("cluster")), tuple(self._acls.find("topic"))
        # With an ACL on the cluster it does not matter what the brokers do without.
        ordinary_on = self._ordinary_on(settings) if self._may_try and not cluster else None
        return RefusalFacts(settings, cluster, topics, self._has_hardcode(), ordinary_on)

    def _has_hardcode(self) -> bool:
        topic = MetadataRequest.MetadataRequestTopic(name=HARDCODE)
        answer = self._acls.admin.ask(MetadataRequest(topics=[topic], allow_auto_topic_creation=False))
        return any(not each.error_code for each in answer.topics)

    def _ordinary_on(self, broker_ids: Collection[int]) -> frozenset[int]:
        self._acls.create([_PROBE])
        try:
            denied: set[int] = set()
            give_up_at = time.monotonic() + _PROBE_S
            while True:
                denied |= {number for number in broker_ids if number not in denied and self._is_denied(number)}
                if len(denied) == len(broker_ids) or time.monotonic() > give_up_at:
                    return frozenset(denied)
                time.sleep(_PAUSE_S)
        finally:
            self._acls.delete([_PROBE])

    def _is_denied(self, broker_id: int) -> bool:
        answer = self._acls.admin.ask(DescribeGroupsRequest(groups=[_PROBE.name]), broker_id)
        return all(each.error_code == _GROUP_AUTHORIZATION_FAILED for each in answer.groups)

from types import SimpleNamespace

import pytest

from broker.errors import ClusterRequestError
from broker.kafka import client
from broker.kafka.acls import AclResource, Acls
from broker.kafka.config import KafkaConfig

SECURITY_DISABLED, NO_RIGHT = 54, 31
TOPICS = AclResource.TOPIC


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(SECURITY_DISABLED, "start them with an authorizer"), (NO_RIGHT, "grant this user DESCRIBE on the cluster")],
)
def test_brokers_that_show_no_acls_are_told_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    refusal = SimpleNamespace(error_code=code, error_message=None, resources=[])
    monkeypatch.setattr(client, "RawAdmin", lambda **_: SimpleNamespace(ask=lambda *_: refusal))
    with pytest.raises(ClusterRequestError, match=remedy):
        Acls(client.KafkaAdmin(KafkaConfig.load("nowhere:1"))).for_writers()

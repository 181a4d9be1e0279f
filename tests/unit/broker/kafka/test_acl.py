from types import SimpleNamespace

import pytest

from broker.kafka.acl import Acl, AclResource, acl_of, allows_without_acl
from wire.holds import HOLD_AUTHORIZER

SETTING, AUTHORIZER = "allow.everyone.if.no.acl.found", "authorizer.class.name"
STANDARD: dict[str, dict[str, str | None]] = {
    AUTHORIZER: {"value": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (STANDARD | {SETTING: {"value": "true"}}, True),
        (STANDARD | {SETTING: {"value": "False "}}, False),
        # As Kafka 4 describes it.
        (STANDARD | {SETTING: {"value": None}}, None),
        (STANDARD, False),
        ({AUTHORIZER: {"value": HOLD_AUTHORIZER}}, False),
        ({AUTHORIZER: {"value": "com.example.Authorizer"}}, None),
        ({}, None),
    ],
)
def test_what_no_acl_names_is_open_closed_or_unknown(
    settings: dict[str, dict[str, str | None]], expected: bool | None
) -> None:
    assert allows_without_acl(settings) is expected


@pytest.mark.parametrize(("pattern", "is_prefix"), [(3, False), (4, True)])
@pytest.mark.parametrize(("operation", "is_about_write"), [(2, True), (4, True), (3, False), (12, False)])
@pytest.mark.parametrize(("permission", "is_allow"), [(2, False), (3, True)])
def test_an_acl_is_read_by_kafka_s_codes(
    pattern: int, is_prefix: bool, operation: int, is_about_write: bool, permission: int, is_allow: bool
) -> None:
    resource = SimpleNamespace(resource_type=5, resource_name="t", pattern_type=pattern)
    entry = SimpleNamespace(principal="User:a", host="*", operation=operation, permission_type=permission)
    expected = Acl(AclResource.TRANSACTIONAL_ID, "t", is_prefix, "User:a", "*", is_about_write, is_allow)
    assert acl_of(resource, entry) == expected

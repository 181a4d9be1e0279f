import pytest

from broker.kafka.acls import allows_without_acl
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
def test_resources_without_an_acl_are_open_closed_or_unknown(
    settings: dict[str, dict[str, str | None]], expected: bool | None
) -> None:
    assert allows_without_acl(settings) is expected

import pytest

from broker.kafka.acls import allows_without_acl, lets_brokers_write
from wire.holds import HOLD_ANY_AUTHORIZER, HOLD_AUTHORIZER

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


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({AUTHORIZER: {"value": HOLD_AUTHORIZER}, SETTING: {"value": None}}, True),
        ({AUTHORIZER: {"value": HOLD_ANY_AUTHORIZER}}, True),
        (STANDARD, True),
        (STANDARD | {SETTING: {"value": None}}, False),
        ({}, False),
    ],
)
def test_a_first_acl_is_safe_where_the_plugin_s_authorizer_runs_or_brokers_deny_by_default(
    settings: dict[str, dict[str, str | None]], expected: bool
) -> None:
    assert lets_brokers_write(settings) is expected

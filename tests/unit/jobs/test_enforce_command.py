"""`pid-quota enforce` before any broker has answered."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from broker.errors import BrokerUnreachableError, WebhookError
from jobs.enforcement.command import enforce
from tables.errors import TableNotFoundError
from tables.store.path_tables import create_missing

SERVERS = "127.0.0.1:1"


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Messages up to the request to the brokers, none of which answers."""
    messages: list[str] = []

    def unreachable(*_: Any) -> None:
        messages.append("asked")
        raise BrokerUnreachableError(SERVERS)

    monkeypatch.setattr("jobs.enforcement.enforcing.print_status", messages.append)
    monkeypatch.setattr("jobs.enforcement.enforcing.HoldBindings", unreachable)
    return messages


@pytest.mark.parametrize("apply", [False, True])
def test_it_prints_the_brokers_before_it_waits_for_their_answer(
    tmp_path: Path, messages: list[str], apply: bool
) -> None:
    create_missing(str(tmp_path))
    with patch("signal.signal"), pytest.raises(BrokerUnreachableError):
        enforce(SERVERS, str(tmp_path), apply=apply)
    assert messages == [f"asking the brokers at {SERVERS}", "asked"]


def test_a_mistyped_folder_is_reported_before_any_broker_is_asked(tmp_path: Path, messages: list[str]) -> None:
    with patch("signal.signal"), pytest.raises(TableNotFoundError, match="mistyped"):
        enforce(SERVERS, str(tmp_path / "mistyped"))
    assert messages == []


def test_a_webhook_without_a_secret_in_the_environment_is_refused_before_any_broker_is_asked(
    tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PID_QUOTA_WEBHOOK_SECRET", raising=False)
    with patch("signal.signal"), pytest.raises(WebhookError, match="set PID_QUOTA_WEBHOOK_SECRET"):
        enforce(SERVERS, str(tmp_path), webhook="https://host/")
    assert messages == []

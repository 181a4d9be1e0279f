"""`pid-quota enforce` before any broker has answered."""

import socket
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from broker.errors import BrokerUnreachableError, WebhookError
from jobs.enforcement.command import enforce
from tables.store.path_tables import create_missing
from tests.kits.command_kit import PidQuota

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


def test_a_mistyped_folder_is_reported_before_any_broker_is_asked(
    tmp_path: Path, messages: list[str], pid_quota: PidQuota
) -> None:
    mistyped = tmp_path / "mistyped"
    with patch("signal.signal"):
        code, _, error = pid_quota("enforce", "--bootstrap-servers", SERVERS, "--tables", str(mistyped))
    assert (code, mistyped.exists(), messages) == (1, False, [])
    assert f"no table producer_id_metrics in {mistyped}. Check --tables" in error


def test_a_dry_run_without_a_broker_ends_with_the_remedy(
    tmp_path: Path, pid_quota: PidQuota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.enforcement.enforcing.RIGHTS_TIMEOUT_S", 0.5)
    create_missing(str(tmp_path))
    with socket.socket() as nobody, patch("signal.signal"):
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        code, out, error = pid_quota("enforce", "--bootstrap-servers", address, "--tables", str(tmp_path))
    assert (code, out) == (1, "")
    assert f"no Kafka broker answers at {address}" in error
    assert "check that it runs, the address and the security settings" in error


def test_neither_the_principals_of_never_nor_its_own_user_are_throttled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Any] = []
    monkeypatch.setattr("jobs.enforcement.command.enforce_until", lambda _stop, _stack, job, _metrics: jobs.append(job))
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=enforcer\nsasl.password=secret\n"
    )
    with patch("signal.signal"):
        enforce(SERVERS, str(tmp_path), never=["User:etl"], kafka_config=config)
    assert jobs[0].options.never == {"User:etl", "enforcer"}


def test_a_webhook_without_a_secret_in_the_environment_is_refused_before_any_broker_is_asked(
    tmp_path: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PID_QUOTA_WEBHOOK_SECRET", raising=False)
    with patch("signal.signal"), pytest.raises(WebhookError, match="set PID_QUOTA_WEBHOOK_SECRET"):
        enforce(SERVERS, str(tmp_path), webhook="https://host/")
    assert messages == []

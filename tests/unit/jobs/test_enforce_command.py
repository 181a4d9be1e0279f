"""`pid-quota enforce` before any broker has answered."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from broker.errors import BrokerUnreachableError
from jobs.enforcement.command import enforce
from tables.errors import TableNotFoundError
from tables.store.path_tables import create_missing

SERVERS = "127.0.0.1:1"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was said by the time the brokers are asked, none of which answers."""
    said: list[str] = []

    def unreachable(*_: Any) -> None:
        said.append("asked")
        raise BrokerUnreachableError(SERVERS)

    monkeypatch.setattr("jobs.enforcement.enforcing.tell", said.append)
    monkeypatch.setattr("jobs.enforcement.enforcing.HoldBindings", unreachable)
    return said


@pytest.mark.parametrize("apply", [False, True])
def test_it_says_whom_it_asks_before_it_waits_for_an_answer(tmp_path: Path, told: list[str], apply: bool) -> None:
    create_missing(str(tmp_path))
    with patch("signal.signal"), pytest.raises(BrokerUnreachableError):
        enforce(SERVERS, str(tmp_path), apply=apply)
    assert told == [f"asking the brokers at {SERVERS}", "asked"]


def test_a_mistyped_folder_is_told_before_any_broker_is_asked(tmp_path: Path, told: list[str]) -> None:
    with patch("signal.signal"), pytest.raises(TableNotFoundError, match="mistyped"):
        enforce(SERVERS, str(tmp_path / "mistyped"))
    assert told == []

"""Fixtures that several files of tests on real brokers share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.local.local_broker import LocalBroker
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import wait_until
from tests.kits.hold_kit import Asker


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    create_missing(str(tmp_path / "tables"))
    return tmp_path / "tables"


@pytest.fixture(scope="session")
def held_broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker with `pidquota.HoldAuthorizer`, which never holds User:never, and at most three others."""
    limits: dict[str, Any] = {
        "pid_quota_never": "User:never;User:CN=never,O=x",
        "pid_quota_max_holds": 3,
        "pid_quota_writers": "User:alice",
    }
    with LocalBroker(tmp_path_factory.mktemp("held"), jars=jars, holds=True, **limits) as running:
        running.wait_for_plugin()
        with Asker(running, "alice") as alice:
            # A broker that has just begun has no producer ids for anybody.
            wait_until(alice.gets_one, "alice gets a producer id")
        yield running

"""Fixtures that several files of tests on real brokers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.kafka.holds import HoldBindings
from broker.local.local_broker import LocalBroker
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import wait_until
from tests.kits.enforce_kit import end_orders


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    create_missing(str(tmp_path / "tables"))
    return tmp_path / "tables"


@pytest.fixture(scope="session")
def held_broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker with `pidquota.HoldAuthorizer`; a test that holds users releases them again."""
    with LocalBroker(tmp_path_factory.mktemp("held"), jars=jars, holds=True) as running:
        yield running


@pytest.fixture
def holds(held_broker: LocalBroker) -> Iterator[HoldBindings]:
    """The holds of the broker with the authorizer: none before and none after the test."""
    end_orders(held_broker)
    with HoldBindings({"bootstrap_servers": held_broker.admin_servers}) as bindings:
        yield bindings
        wait_until(lambda: bindings.all() == [], "no hold is left")

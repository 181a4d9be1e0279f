"""What attacks on real brokers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.local.local_broker import DEFAULT_USERS, LocalBroker
from tests.kits.broker_kit import new_topic, transactional_producer


@pytest.fixture(scope="module")
def attacked(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of its own: what is done to it must not meet other tests."""
    users = {**DEFAULT_USERS, "victim": "victim-secret", "nobody": "nobody-secret"}
    with LocalBroker(tmp_path_factory.mktemp("attacked"), users, jars=jars) as running:
        running.wait_for_plugin()
        # Makes the topic of the transactions, which a bare INIT_PRODUCER_ID does not.
        transactional_producer(running.admin_config(), "first")
        yield running


@pytest.fixture
def orders(attacked: LocalBroker) -> str:
    return new_topic(attacked, "orders")

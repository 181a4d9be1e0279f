"""Go's client libraries under a hold; slow, since their programs are built."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from tests.broker.go_kit import GoProducers, build_go_clients, find_go
from tests.broker.hold_kit import bound, hold, holding_broker
from tests.broker_kit import end_offset, new_topic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_go() is None, reason="there is no go command: install Go to test its client libraries"),
]
PRODUCERS = 3
LONGEST_PAUSE_S = {"franz-go": 5.0, "sarama": 0.1}
"""Between two requests for a producer id, at the defaults: franz-go doubles it up to 5 s."""


@pytest.fixture(scope="module")
def broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with holding_broker(tmp_path_factory.mktemp("held"), jars) as running:
        yield running


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_go_clients(tmp_path_factory.mktemp("go"))


@pytest.mark.parametrize("library", sorted(LONGEST_PAUSE_S))
def test_new_producers_wait_until_the_hold_ends_and_a_known_one_goes_on(
    broker: LocalBroker, program: str, library: str
) -> None:
    topic = new_topic(broker, "orders")
    with GoProducers(program, library, broker.client_config("mallory"), topic, PRODUCERS) as producers:
        held = hold(8)
        until_s = int(held.name.rpartition(":")[2]) / 1000
        with bound(broker, held):
            producers.start()
            ends = producers.ends()
        assert all(until_s <= end <= until_s + 2 + LONGEST_PAUSE_S[library] for end in ends)
        meanwhile = [each for each in producers.known if each < until_s]
        # 50 ms apart, for most of eight seconds.
        assert len(meanwhile) > 50
        # sarama gives up after five seconds, before it takes a message; the program then tries again.
        assert all("load" in each for each in producers.failures)
        assert bool(producers.failures) == (library == "sarama")
    assert end_offset(broker, topic) >= 1 + len(producers.known) + PRODUCERS

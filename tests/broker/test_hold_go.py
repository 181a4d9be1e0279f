import pytest

from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import end_offset, new_topic
from tests.kits.client_kit import PRODUCERS, build_go_program, command_of, find_go, running
from tests.kits.hold_kit import HoldWriter, end_s, is_at_end

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_go() is None, reason="there is no go command: install Go to test its client libraries"),
]
LIBRARIES = ["franz-go", "sarama"]


@pytest.fixture(scope="module")
def broker(held_broker: LocalBroker) -> LocalBroker:
    return held_broker


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_go_program(tmp_path_factory.mktemp("go"))


@pytest.mark.parametrize("library", LIBRARIES)
def test_new_producers_wait_until_the_hold_ends_and_a_known_one_goes_on(
    broker: LocalBroker, program: str, library: str
) -> None:
    topic = new_topic(broker, "orders")
    words = ("orders-app", str(PRODUCERS), "once")
    command = command_of([program, library], broker.client_config("mallory"), topic, *words)
    with running(command, awaits_start=True) as producers, HoldWriter(broker) as holds:
        until_s = end_s(holds.wait_for(holds.hold(8)))
        producers.start()
        ends = producers.ends()
        assert all(is_at_end(end, until_s) for end in ends)
        meanwhile = [each for each in producers.times("known") if each < until_s]
        # 50 ms apart, for most of eight seconds.
        assert len(meanwhile) > 50
        # sarama gives up after five seconds, before it takes a message; the program then tries again.
        failures = producers.lines("failed")
        assert all("load" in each for each in failures)
        assert bool(failures) == (library == "sarama")
    assert end_offset(broker, topic) >= 1 + len(producers.lines("known")) + PRODUCERS

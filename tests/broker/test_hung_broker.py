"""One of three brokers hangs: it accepts connections and answers nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import BrokerUnreachableError
from broker.kafka.silence import silent_brokers
from broker.kafka.topic_setup import TopicSetup, plan_topics
from tests.broker.local_cluster import LocalCluster
from tests.kits.broker_kit import frozen

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("hung"), jars=jars) as running:
        running.wait_for_plugin()
        yield running


def shown(cluster: LocalCluster) -> str:
    """Return how all topics are, or what is said instead."""
    try:
        return ", ".join({each.action for each in TopicSetup(cluster.admin_config()).describe(plan_topics())})
    except BrokerUnreachableError as error:
        return str(error)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_it_is_named_whether_or_not_the_others_show_the_topics(cluster: LocalCluster, node: int) -> None:
    addresses = dict(zip(cluster.node_ids, cluster.admin_servers.split(","), strict=True))
    process = cluster.pid(node)
    assert process is not None
    with frozen(process):
        answering, silent = silent_brokers(cluster.admin_config())
        assert len(answering) == 2
        assert all(addresses[node] in each for each in silent)
        assert silent
        said = shown(cluster)
    # librdkafka asks the controller, which may be the broker that hangs.
    assert said == "exists" or addresses[node] in said

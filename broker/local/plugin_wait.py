"""Waits until the plugin writes, after the start of its broker."""

import time
from collections.abc import Collection, Mapping

from broker.errors import BrokerUnreachableError, LocalBrokerError, TopicMissingError
from broker.kafka.report_tail import newest_states
from broker.kafka.topics import admin_client, existing_topics
from wire.plugin_reports import StopReport
from wire.topics import OWN_TOPICS

_POLL_S = 0.1


def wait_for_plugins(
    config: Mapping[str, str], broker_ids: Collection[int], started_ms: float, timeout_s: float
) -> None:
    """Wait until the plugins' topics exist, and each broker's plugin has reported since `started_ms`.

    Raises LocalBrokerError after the timeout.
    """
    give_up_at = time.monotonic() + timeout_s
    while missing := _missing(config, broker_ids, started_ms):
        if time.monotonic() > give_up_at:
            msg = f"the plugin did not report within {timeout_s:g} s ({missing}): see server.log in the broker's folder"
            raise LocalBrokerError(msg)
        time.sleep(_POLL_S)


def _missing(config: Mapping[str, str], broker_ids: Collection[int], started_ms: float) -> str:
    """Return what is not there yet, or an empty text."""
    try:
        topics = OWN_TOPICS - existing_topics(admin_client(config)).keys()
        if topics:
            return f"no topic {', '.join(sorted(topics))}"
        states = newest_states(config)
    except (BrokerUnreachableError, TopicMissingError) as error:
        return str(error)
    for broker_id in broker_ids:
        found = states.get(broker_id)
        if found is None or found.state.timestamp_ms < started_ms or isinstance(found.state, StopReport):
            return f"no report of broker {broker_id}"
        if found.state.problem:
            return f"broker {broker_id}: {found.state.problem}"
    return ""

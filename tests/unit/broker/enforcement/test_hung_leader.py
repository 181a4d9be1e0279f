"""A hold that can't be written, because the leader of the topic hangs, or for another reason."""

from unittest.mock import Mock

import pytest

from broker.enforcement import hold_topic
from broker.enforcement.hold_topic import HoldTopic
from broker.enforcement.model import Change
from broker.errors import HoldNotWrittenError


@pytest.mark.parametrize(
    ("silent", "remedy"),
    [
        (["broker 2 (h:2)"], r"broker 2 \(h:2\) does not answer, but broker 1 \(h:1\) does\. Look whether it hangs"),
        ([], "check that it has a leader, and that pid.quota.writers of the brokers names this user"),
    ],
)
def test_the_remedy_is_for_what_was_found(monkeypatch: pytest.MonkeyPatch, silent: list[str], remedy: str) -> None:
    monkeypatch.setattr(hold_topic, "silent_brokers", lambda _: (["broker 1 (h:1)"], silent))
    # Given clients that no broker answers.
    monkeypatch.setattr(hold_topic, "admin_client", Mock())
    monkeypatch.setattr(hold_topic, "TopicReader", lambda *_, **__: Mock(read_to_end=list))
    monkeypatch.setattr(hold_topic, "Producer", Mock())

    topic = HoldTopic({"bootstrap.servers": "h:1,h:2"})

    with pytest.raises(HoldNotWrittenError, match=remedy):
        topic.write([Change("User:new", None)])

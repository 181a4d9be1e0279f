"""What the session's process says when its JVM is gone."""

import logging

import pytest

from streaming import session


def test_a_jvm_that_is_gone_leaves_no_trace_of_py4j_and_hides_nothing_of_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "filters", [])

    session.silence_the_jvms_end()
    for path in ("/site-packages/py4j/java_gateway.py", "/site-packages/deltalake/table.py"):
        root.handle(logging.LogRecord("root", logging.ERROR, path, 1, f"from {path}", (), None))

    assert caplog.messages == ["from /site-packages/deltalake/table.py"]

"""What the session's process does while its JVM starts, and says when it is gone."""

import logging
import signal
import socket
import tempfile
import threading
import uuid
from pathlib import Path

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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_the_jvm_starts_counts_once_it_has_started(
    number: signal.Signals,
) -> None:
    done = []

    def start() -> None:
        with session.uninterrupted():
            signal.raise_signal(number)
            done.append("started")

    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert done == ["started"]


def test_tasks_of_the_driver_s_process_find_the_jars_on_its_class_path_so_that_spark_copies_none() -> None:
    settings = session.one_process_settings(["/jars/a.jar", "/jars/b.jar"])
    assert settings["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    assert "spark.jars" not in settings


def test_sockets_of_workers_are_in_a_folder_that_only_this_user_may_enter() -> None:
    folder = Path(session.one_process_settings([])["spark.python.unix.domain.socket.dir"])
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_socket_s_path_is_as_short_as_linux_allows_however_deep_the_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = session.one_process_settings([])["spark.python.unix.domain.socket.dir"]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/.{uuid.uuid4()}.sock")
        (own,) = deep.iterdir()
        assert [each.suffix for each in own.iterdir()] == [".sock"]


def test_a_session_may_be_started_in_any_thread() -> None:
    done = []

    def start() -> None:
        with session.uninterrupted():
            done.append("started")

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert done == ["started"]

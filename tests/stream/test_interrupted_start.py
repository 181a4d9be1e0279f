"""Ctrl-C while Spark starts: the JVM ends with the command, at whatever moment it comes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kits.process_kit import left_of

PROGRAM = """
import signal
from jvm.jar_sets import spark_jars
from jvm.java import quick_options
from streaming.session import stream_session

signal.signal(signal.SIGTERM, signal.default_int_handler)
jars = spark_jars()
print("starting", flush=True)
stream_session(jars, "local[1]", java_options=quick_options())
signal.pause()
"""


@pytest.mark.usefixtures("jars")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after_s", [0.2, 1, 3, 6])
def test_an_interrupted_start_leaves_no_jvm(tmp_path: Path, number: signal.Signals, after_s: float) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout
        running.stdout.readline()
        time.sleep(after_s)
        running.send_signal(number)
        _, err = running.communicate(timeout=240)

    assert left_of(tmp_path) == []
    assert err.rstrip().endswith(b"KeyboardInterrupt")

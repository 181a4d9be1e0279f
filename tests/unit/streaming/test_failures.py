"""What ended a stream, out of what Spark says of it."""

import subprocess
import sys
import traceback
from pathlib import Path
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException, StreamingQueryException

from streaming.checkpoint.spark_files import lock_checkpoint
from streaming.errors import CheckpointError, SparkCallError, StreamFailedError
from streaming.failures import as_stream_error, is_of_spark, jvm_may_be_gone, with_short_errors

WORKER = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy.
Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
py4j.protocol.Py4JJavaError: An error occurred while calling o191.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
\t... 12 more
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage 3.0
Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting
"""
CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
MOON = "org.apache.spark.SparkException: the moon is full"
OTHER = WORKER.replace(CRASHED, MOON)
AT_ONCE = "An error occurred while calling o136.start.\n: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Py4JError("An error occurred while calling o91.awaitAnyTermination"), "its JVM is gone"),
        (Py4JNetworkError("Answer from Java side is empty"), "its JVM is gone"),
        (Py4JNetworkError("Error while sending or receiving"), "its JVM is gone"),
        (ConnectionRefusedError(111, "Connection refused"), "its JVM is gone"),
        (StreamingQueryException(WORKER), "a Spark worker was killed"),
        (
            StreamingQueryException(WORKER.replace(CRASHED, "java.io.IOException: Stream closed")),
            "a Spark worker was",
        ),
        (StreamingQueryException(OTHER), f"the stream ended with an error: {MOON}"),
        (
            StreamingQueryException(WORKER.replace(CRASHED, "java.nio.file.AccessDeniedException: /checkpoint/state")),
            "permission denied: let this user write",
        ),
    ],
)
def test_the_first_cause_that_somebody_can_do_something_about_is_told(error: Exception, words: str) -> None:
    assert is_of_spark(error)
    told = as_stream_error(error, "./checkpoint")
    assert isinstance(told, StreamFailedError)
    assert words in str(told)
    assert "start it again" in str(told)
    assert "\n" not in str(told)


def test_a_broker_that_refuses_connections_is_not_taken_for_the_jvm() -> None:
    text = "broker.errors.BrokerUnreachableError: no broker answers at b:9092 (Connection refused): check the address"
    assert "the brokers did not answer" in str(as_stream_error(StreamingQueryException(text), "./checkpoint"))


def test_a_second_stream_that_spark_finds_is_told_as_one_that_the_lock_finds(tmp_path: Path) -> None:
    by_spark = as_stream_error(Py4JError(AT_ONCE), str(tmp_path))
    with lock_checkpoint(str(tmp_path)), pytest.raises(CheckpointError) as raised, lock_checkpoint(str(tmp_path)):
        pass
    assert str(by_spark) == str(raised.value)


def test_a_checkpoint_can_be_held_again_once_it_is_let_go(tmp_path: Path) -> None:
    for _ in range(2):
        with lock_checkpoint(str(tmp_path / "new")):
            pass


def test_a_checkpoint_that_is_no_folder_is_left_to_those_who_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with lock_checkpoint(str(tmp_path / "file")), lock_checkpoint("s3://bucket/checkpoint"):
        pass


def test_only_what_a_jvm_that_is_gone_leaves_is_passed_over_at_the_end() -> None:
    gone = Py4JError("An error occurred while calling o91.stop")
    with jvm_may_be_gone():
        raise gone
    mistake = Py4JError("An error occurred while calling o91.stop. Trace:\npy4j.Py4JException: Method does not exist")
    with pytest.raises(Py4JError, match="does not exist"), jvm_may_be_gone():
        raise mistake


def test_after_an_interruption_no_error_of_spark_is_reported() -> None:
    gone = Py4JError("org.apache.spark.sql.classic.SparkSession does not exist in the JVM")

    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            with jvm_may_be_gone():
                raise gone

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_after_an_interruption_an_error_of_ours_is_reported() -> None:
    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            with jvm_may_be_gone():
                raise StreamFailedError

    with pytest.raises((StreamFailedError, KeyboardInterrupt)) as raised:
        interrupted()
    assert raised.type is StreamFailedError


# What Spark is told of a batch that failed


def told(error: Exception) -> str:
    commit, batch = Mock(side_effect=error), Mock()
    with pytest.raises((type(error), SparkCallError)) as raised:
        with_short_errors(commit)(batch, 7)
    commit.assert_called_once_with(batch, 7)
    return "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [(WORKER, CRASHED, "a Spark worker was killed"), (OTHER, MOON, f"the stream ended with an error: {MOON}")],
)
def test_an_error_of_spark_in_a_batch_has_its_causes_and_no_stack_of_java(error: str, cause: str, words: str) -> None:
    text = told(PySparkException(error))
    assert "streaming.errors.SparkCallError: " in text
    assert f"Caused by: {cause}" in text
    assert "\tat " not in text
    assert " more\n" not in text
    assert "while calling an ended query" not in text
    assert words in str(as_stream_error(StreamingQueryException(text), "c"))


@pytest.mark.parametrize(
    "why",
    ["org.apache.spark.SparkException: Job 4 cancelled part of cancelled job group", "java.lang.InterruptedException"],
)
def test_a_batch_that_ends_with_its_query_is_said_in_words_that_spark_knows_and_at_the_end(why: str) -> None:
    text = told(PySparkException(f"An error occurred while calling o1.x.\n: {why}\n\tat a.b(C.scala:1)"))
    _, found, rest = text.rpartition("py4j.protocol.Py4JJavaError: An error occurred while calling")
    assert found
    # Spark's regular expression matches from there on, character by character.
    assert rest.endswith("java.lang.InterruptedException\n")
    assert len(rest) < 100


@pytest.mark.parametrize("by", ["__cause__", "__context__"])
def test_an_error_of_ours_in_a_batch_keeps_its_class_and_drops_what_caused_it(by: str) -> None:
    error = CheckpointError("no such file")
    setattr(error, by, PySparkException(WORKER))
    text = told(error)
    assert text.endswith("streaming.errors.CheckpointError: no such file\n")
    assert "Python worker" not in text


# How a process ends whose JVM is gone

ENDS_IN_A_BATCH = """
import sys, threading, time
from datetime import datetime, timezone
from types import SimpleNamespace
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from streaming.batch.quotas_in_force import read_quotas
from streaming.failures import await_batches, with_short_errors

set_quota(sys.argv[1], QuotaEntry(None, 1.0, datetime.now(timezone.utc), "test"))
begun, over = threading.Event(), threading.Event()

def commit(batch, batch_id):
    while not over.is_set():
        read_quotas(None, sys.argv[1])
        begun.set()

threading.Thread(target=with_short_errors(commit), args=(None, 1), daemon=True).start()
begun.wait()
threading.Timer(0.5, over.set).start()
await_batches()
print("over" if over.is_set() else "in a batch")
sys.exit(1)
"""


def test_a_process_ends_with_its_own_exit_code_though_a_batch_is_in_native_code(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDS_IN_A_BATCH, str(tmp_path)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "over\n", "")

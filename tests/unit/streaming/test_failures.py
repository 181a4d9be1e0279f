"""What ended a stream, out of what Spark says of it."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import StreamingQueryException

from streaming.checkpoint.spark_files import lock_checkpoint
from streaming.errors import CheckpointError, StreamFailedError
from streaming.failures import as_stream_error, is_of_spark, jvm_may_be_gone

WORKER = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy.
Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
py4j.protocol.Py4JJavaError: An error occurred while calling o191.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage 3.0
Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting
"""
CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
OTHER = WORKER.replace("Python worker exited unexpectedly (crashed)", "the moon is full")
AT_ONCE = "An error occurred while calling o136.start.\n: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Py4JError("An error occurred while calling o91.awaitAnyTermination"), "its JVM is gone"),
        (Py4JNetworkError("Answer from Java side is empty"), "its JVM is gone"),
        (ConnectionRefusedError(111, "Connection refused"), "its JVM is gone"),
        (StreamingQueryException(WORKER), "a Spark worker was killed"),
        (
            StreamingQueryException(WORKER.replace(CRASHED, "java.io.IOException: Stream closed")),
            "a Spark worker was",
        ),
        (StreamingQueryException(OTHER), "the stream ended with an error: org.apache.spark.SparkException: the moon"),
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

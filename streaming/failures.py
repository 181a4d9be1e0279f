"""Translates an error that ended a stream into a message that says what to do."""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import DataFrame

from streaming.checkpoint.spark_files import in_use
from streaming.errors import (
    CheckpointDamagedError,
    SparkCallError,
    StreamFailedError,
    StreamIdTakenError,
    StreamingError,
    WindowTooShortError,
)

_REMEDIES = (
    (
        r"Python worker (exited unexpectedly|failed to connect back)|ExecutorLostFailure"
        r"|java\.io\.IOException: (Stream closed|Broken pipe|Connection reset)",
        "a Spark worker was killed, most likely out of memory: give it more memory, or take fewer records with "
        "--max-offsets-per-trigger, and start it again; no batch is lost",
    ),
    (r"No space left on device", "a disk is full: free space below --tables and --checkpoint and start it again"),
    (r"Read-only file system", "a file system is read-only: mount it for writing and start it again"),
    (
        r"Permission denied|AccessDeniedException",
        "permission denied: let this user write to --tables and --checkpoint, and start it again",
    ),
    (
        r"UnknownTopicOrPartition|unknown topic or partition",
        "the topic does not exist: load the plugin into the brokers, which makes it (docs/plugin.md), and start the "
        "stream again",
    ),
    (
        r"kafka\S*TimeoutException|BrokerUnreachableError",
        "the brokers did not answer: start it again once they do",
    ),
)
_STATE = (
    r"CANNOT_LOAD_STATE_STORE|CANNOT_READ_STATE|Error reading delta file|Error reading streaming state file"
    r"|STATE_STORE_\w*(?:CHECKSUM|CORRUPT)\w*|Incomplete log file|Checksum verification failed"
)
_PYTHON_ERROR = re.compile(r"^(?!py4j\.|\S*SparkCallError)[\w.]+(?:Error|Exception): .+$", re.MULTILINE)
_JAVA_CAUSE = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_NO_ANSWER = re.compile(r"An error occurred while calling [\w.]+|Answer from Java side is empty.*", re.DOTALL)
"""py4j's messages when the JVM did not answer."""
_IN_USE = re.compile(
    r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|ConcurrentModificationException: Multiple stream"
    r"|CheckpointInUseError: another stream runs on checkpoint"
)
_OWN = re.compile(r"^streaming\.errors\.(StreamIdTakenError|WindowTooShortError): (.+)$", re.MULTILINE)
"""Errors whose messages need no other words."""
_MAX_CAUSE = 300
_JAVA_FRAME = re.compile(r"^\s+(?:at |\.\.\. \d+ more).*\n?", re.MULTILINE)
_WAS_STOPPED = re.compile(r"\bcancelled\b|InterruptedException")
_STOPPED = "py4j.protocol.Py4JJavaError: An error occurred while calling an ended query: java.lang.InterruptedException"
"""Text that tells Spark that a batch failed because the query was stopped."""
_MAX_BATCH_END_S = 60.0


def is_of_spark(error: Exception) -> bool:
    """Return whether pyspark or py4j raised the error, or the error is a failed connection."""
    return type(error).__module__.startswith(("pyspark.", "py4j.")) or isinstance(error, ConnectionError)


def with_short_errors(commit: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that removes Java stack traces and causes from errors of `commit`.

    If a query is stopped during a batch, Spark 4 matches the error's text against `StreamExecution.PROXY_ERROR`. The
    stack overflows if the text has more than about a thousand characters.
    """

    def call(batch: DataFrame, batch_id: int) -> None:
        try:
            with _counted():
                commit(batch, batch_id)
        except Exception as error:
            if is_of_spark(error):
                raise _shortened(str(error)) from None
            # The assignment also hides the error's context.
            error.__cause__ = None
            raise

    return call


def await_batches() -> None:
    """Wait at most a minute until no thread runs a batch.

    py4j runs batches in daemon threads. If Python ends while such a thread is in native code (deltalake, pyarrow), the
    process crashes (SIGABRT or SIGSEGV).
    """
    _BATCHES.wait()


class _BatchesInProgress:
    def __init__(self) -> None:
        self._count, self._changed = 0, threading.Condition()

    @contextmanager
    def counted(self) -> Iterator[None]:
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._count, _MAX_BATCH_END_S)

    def _add(self, number: int) -> None:
        with self._changed:
            self._count += number
            self._changed.notify_all()


_BATCHES = _BatchesInProgress()


def _counted() -> AbstractContextManager[None]:
    # The pickled function for `foreachBatch` holds this function by name. A pickle would hold `_BATCHES` by value.
    return _BATCHES.counted()


def _shortened(text: str) -> SparkCallError:
    ending = f"\n{_STOPPED}" if _WAS_STOPPED.search(text) else ""
    return SparkCallError(_JAVA_FRAME.sub("", text) + ending)


def apart(call: Callable[[], object]) -> None:
    """Call Spark in a thread of its own, which has a connection of its own to the JVM.

    After Ctrl-C, this thread's connection would first wait for the end of the call that was interrupted.
    """
    with ThreadPoolExecutor(1) as threads:
        threads.submit(call).result()


@contextmanager
def jvm_may_be_gone() -> Iterator[None]:
    """Ignore errors in the `with` block if the JVM does not answer. Such a JVM needs no cleanup.

    After Ctrl-C or SIGTERM, ignore all errors of Spark, because the signal may have ended the JVM.
    """
    try:
        yield
    except Exception as error:
        if not (_is_unanswered(error) or (is_of_spark(error) and _follows_interrupt(error))):
            raise


def as_stream_error(error: Exception, checkpoint: str) -> StreamingError:
    """Translate the error with which Spark ended a stream. The message names the checkpoint folder."""
    text = str(error)
    if _IN_USE.search(text):
        return in_use(checkpoint)
    if own := _OWN.search(text):
        return StreamIdTakenError(own[2]) if own[1] == "StreamIdTakenError" else WindowTooShortError(own[2])
    if _is_unanswered(error):
        return StreamFailedError(
            "the stream ended: its JVM is gone, perhaps killed for lack of memory (see the kernel's log): "
            "start it again; no batch is lost"
        )
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, text):
            return StreamFailedError(f"the stream ended: {remedy} ({_cause(text, pattern)})")
    if re.search(_STATE, text):
        return CheckpointDamagedError(
            f"a file of checkpoint {checkpoint} can't be read ({_cause(text, _STATE)}): restore the folder from a "
            f"backup, or start with an empty folder as --checkpoint and --new-checkpoint"
        )
    # The last line of a Python stack trace names an error in this project's functions. Without a Python stack
    # trace, use Java's innermost cause.
    causes = _PYTHON_ERROR.findall(text) or _JAVA_CAUSE.findall(text)
    cause = causes[-1][:_MAX_CAUSE] if causes else _cause(text, "")
    return StreamFailedError(f"the stream ended with an error: {cause}; fix its cause and start it again")


def _is_unanswered(error: Exception) -> bool:
    return isinstance(error, ConnectionError) or (
        type(error).__module__.startswith("py4j.")
        and (type(error).__name__ == "Py4JNetworkError" or _NO_ANSWER.fullmatch(str(error)) is not None)
    )


def _follows_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _cause(text: str, pattern: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if re.search(pattern, line)), "no message")[:_MAX_CAUSE]

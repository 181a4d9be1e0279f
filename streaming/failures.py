"""Translates the errors that terminate a stream: the first cause that an operator can act on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from streaming.checkpoint.spark_files import in_use
from streaming.errors import CheckpointDamagedError, StreamFailedError, StreamingError

_REMEDIES = (
    (
        r"Python worker (exited unexpectedly|failed to connect back)|ExecutorLostFailure"
        r"|java\.io\.IOException: (Stream closed|Broken pipe|Connection reset)",
        "a Spark worker was killed, most likely out of memory: give it more memory, or take fewer records with "
        "--max-offsets-per-trigger, and start it again; no batch is lost",
    ),
    (r"No space left on device", "a disk is full: free space below --tables and --checkpoint and start it again"),
    (r"Read-only file system", "a file system is read-only: mount it for writing and start it again"),
    (r"Permission denied", "a folder may not be written: give this user the right to and start it again"),
    (
        r"UnknownTopicOrPartition|unknown topic or partition",
        "the topic is gone: make it again (`pid-quota tap` does) and start it again",
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
_PYTHON_ERROR = re.compile(r"^(?!py4j\.)[\w.]+(?:Error|Exception): .+$", re.MULTILINE)
_JAVA_CAUSE = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_NO_ANSWER = re.compile(r"An error occurred while calling [\w.]+|Answer from Java side is empty.*", re.DOTALL)
"""py4j gives no cause: the JVM did not answer."""
_IN_USE = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|ConcurrentModificationException: Multiple stream")
_LONGEST_CAUSE = 300


def is_of_spark(error: Exception) -> bool:
    """Return whether an error comes from Spark, as a class of pyspark's or py4j's.

    If the JVM is gone, it is a connection error.
    """
    return type(error).__module__.startswith(("pyspark.", "py4j.")) or isinstance(error, ConnectionError)


@contextmanager
def jvm_may_be_gone() -> Iterator[None]:
    """Ignore that the JVM does not answer: there is nothing left to stop, and the first error is the one to report."""
    try:
        yield
    except Exception as error:
        if not _is_unanswered(error):
            raise


def as_stream_error(error: Exception, checkpoint: str) -> StreamingError:
    """Translate the error that terminated a stream.

    Args:
        error: Spark's.
        checkpoint: Folder of the stream's checkpoint.
    """
    text = str(error)
    if _IN_USE.search(text):
        return in_use(checkpoint)
    if _is_unanswered(error):
        return StreamFailedError(
            "the stream ended: its JVM is gone, killed by somebody or for lack of memory (the kernel's log says so): "
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
    # An error in our own functions is the last line of the Python stack; otherwise take Java's innermost cause.
    causes = _PYTHON_ERROR.findall(text) or _JAVA_CAUSE.findall(text)
    cause = causes[-1][:_LONGEST_CAUSE] if causes else _cause(text, "")
    return StreamFailedError(f"the stream ended with an error: {cause}; fix its cause and start it again")


def _is_unanswered(error: Exception) -> bool:
    return isinstance(error, ConnectionError) or (
        type(error).__module__.startswith("py4j.") and _NO_ANSWER.fullmatch(str(error)) is not None
    )


def _cause(text: str, pattern: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if re.search(pattern, line)), "no message")[:_LONGEST_CAUSE]

"""Why Spark ended the stream, in our words: the first cause that an operator can do something about."""

import re

from streaming.errors import CheckpointDamagedError, StreamFailedError, StreamingError

_REMEDIES = (
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
_PYTHON_ERROR = re.compile(r"^[\w.]+(?:Error|Exception): .+$", re.MULTILINE)
_LONGEST_CAUSE = 300


def is_of_spark(error: Exception) -> bool:
    """Say whether an error comes out of Spark: what it has no class for in Python comes as one of py4j's."""
    return type(error).__module__.startswith(("pyspark.", "py4j."))


def as_stream_error(error: Exception, checkpoint: str) -> StreamingError:
    """Return what ended a stream as an error of ours.

    Args:
        error: Spark's.
        checkpoint: Folder of the stream's checkpoint.
    """
    text = str(error)
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, text):
            return StreamFailedError(f"the stream ended: {remedy} ({_cause(text, pattern)})")
    if re.search(_STATE, text):
        return CheckpointDamagedError(
            f"a file of checkpoint {checkpoint} can't be read ({_cause(text, _STATE)}): restore the folder from a "
            f"backup, or start with an empty folder as --checkpoint and --new-checkpoint"
        )
    # Of an exception in our own functions, the last line of the Python stack says it; of others, the first line.
    ours = _PYTHON_ERROR.findall(text)
    cause = ours[-1][:_LONGEST_CAUSE] if ours else _cause(text, "")
    return StreamFailedError(f"the stream ended with an error: {cause}; fix its cause and start it again")


def _cause(text: str, pattern: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if re.search(pattern, line)), "no message")[:_LONGEST_CAUSE]

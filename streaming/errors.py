"""Errors of the stream."""


class StreamingError(Exception):
    """Base class of all errors of this package."""


class CheckpointError(StreamingError):
    """Raised when a checkpoint folder can't be used, or its settings differ from the stream's."""


class CheckpointInUseError(CheckpointError):
    """Raised when another stream runs on the checkpoint folder."""


class CheckpointDamagedError(CheckpointError):
    """Raised when a file of the checkpoint folder is truncated or corrupt."""


class StreamIdTakenError(CheckpointError):
    """Raised when another stream writes with this stream's id. Both streams run on copies of one checkpoint."""


class DataLossError(StreamingError):
    """Raised when records were lost before the stream read them. The stream must restart and learn."""


class WindowTooShortError(StreamingError):
    """Raised when the quotas' window has too few repeat intervals of a plugin."""


class StreamFailedError(StreamingError):
    """Raised when Spark ended the stream with an error."""


class SparkCallError(StreamingError):
    """Raised in a batch when a call to Spark fails. The message is Spark's, without Java's stack trace."""


class SparkMissingError(StreamingError):
    """Raised when a command needs Spark, but pyspark is not installed."""


class SessionError(StreamingError):
    """Raised when a Spark session rejects a setting that the stream needs."""


class SecretError(StreamingError):
    """Raised when a Databricks secret can't be read."""

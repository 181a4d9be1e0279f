"""The error tree of the streaming job."""


class StreamingError(Exception):
    """Root of every error raised by the streaming package."""


class CheckpointError(StreamingError):
    """Raised when a checkpoint folder can't be used, or belongs to a stream with other settings."""


class CheckpointDamagedError(CheckpointError):
    """Raised when a file of the checkpoint folder is truncated or corrupt."""


class StreamIdTakenError(CheckpointError):
    """Raised when another stream writes with this stream's id, because both run on copies of one checkpoint."""


class DataLossError(StreamingError):
    """Raised when records were lost before they were read. The stream must restart in learning mode."""


class StreamFailedError(StreamingError):
    """Raised when Spark terminated the stream with an error."""


class SparkCallError(StreamingError):
    """Raised in a batch when a call to Spark fails. The error has Spark's message without Java's stack trace."""


class SparkMissingError(StreamingError):
    """Raised when a command needs Spark and pyspark is not installed."""


class SessionError(StreamingError):
    """Raised when the existing Spark session rejects a setting that the stream needs."""


class SecretError(StreamingError):
    """Raised when a Databricks secret can't be read."""

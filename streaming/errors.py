"""The error tree of the streaming job."""


class StreamingError(Exception):
    """Root of every error raised by the streaming package."""


# The running stream


class CheckpointError(StreamingError):
    """Raised when a checkpoint folder can't be used, or belongs to a stream of other settings."""


class CheckpointDamagedError(CheckpointError):
    """Raised when a file of the checkpoint folder is cut short."""


class DataLossError(StreamingError):
    """Raised when records were gone before they were read: the stream has to start anew, learning."""


class StreamFailedError(StreamingError):
    """Raised when Spark ended the stream with an error."""


class SparkMissingError(StreamingError):
    """Raised when a command needs Spark and pyspark is not installed."""


class SessionError(StreamingError):
    """Raised when the Spark session that is there does not let a setting be changed which the stream needs."""


class SecretError(StreamingError):
    """Raised when a secret of Databricks can't be read."""

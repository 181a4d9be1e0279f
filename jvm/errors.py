"""Errors about Java and the jars."""


class JvmError(Exception):
    """Root of all errors of this package."""


class JavaError(JvmError):
    """Root of the errors about the Java installation."""


class JavaMissingError(JavaError):
    """Raised when no usable Java was found."""


class JavaTooOldError(JavaError):
    """Raised when the Java found is too old."""


class JarsError(JvmError):
    """Raised when JVM dependencies can't be fetched, or are incomplete."""


class PysparkMissingError(JarsError):
    """Raised when pyspark, whose Ivy fetches the jars, is not installed or lacks its jars."""

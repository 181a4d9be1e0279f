"""Errors of this package."""


class JvmError(Exception):
    """Base class of all errors of this package."""


class JavaError(JvmError):
    """Base class of errors about the Java installation."""


class JavaMissingError(JavaError):
    """Raised when there is no usable Java."""


class JavaTooOldError(JavaError):
    """Raised when Java is too old."""


class JarsError(JvmError):
    """Raised when jars can't be fetched, are incomplete or altered, or when the plugin does not compile."""


class PysparkMissingError(JarsError):
    """Raised when pyspark, which contains Ivy, is not installed or lacks its jars."""

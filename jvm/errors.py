"""Errors of this package."""


class JvmError(Exception):
    """Base class of all errors of this package."""


class JavaError(JvmError):
    """Raised when there is no usable Java, or Java is too old."""


class JarsError(JvmError):
    """Raised when jars can't be fetched, are incomplete or altered, or when the plugin does not compile."""

"""Shows a repeated message to the operator only once."""

from collections.abc import Callable


class Once:
    """Passes a message on unless it equals the previous one. None clears the previous one."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._last: str | None = None

    def __call__(self, text: str | None) -> None:
        """Report a message."""
        if text is not None and text != self._last:
            self._warn(text)
        self._last = text

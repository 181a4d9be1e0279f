"""Shows a repeated message to the operator only once."""

from collections.abc import Callable


class Once:
    """A filter that drops a message if it equals the previous message or is None."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._last: str | None = None

    def __call__(self, text: str | None) -> None:
        """Show `text` if it differs from the previous message."""
        if text is not None and text != self._last:
            self._warn(text)
        self._last = text

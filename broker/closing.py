"""Base of classes whose `with` block closes them."""

from typing_extensions import Self


class Closing:
    """A context manager that calls `close` on exit."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all resources."""
        raise NotImplementedError

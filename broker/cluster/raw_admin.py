"""kafka-python's admin client, with a method that sends any request."""

from __future__ import annotations

from typing import Any

from kafka.admin import KafkaAdminClient


class RawAdmin(KafkaAdminClient):
    """Connects at once; raises the library's own errors."""

    def __init__(self, **settings: Any) -> None:
        """Connect; on failure close what was opened, since the library leaks its thread."""
        try:
            super().__init__(**settings)
        except BaseException:
            if hasattr(self, "_net"):
                self._closed = False
                self.close()
            raise

    def ask(self, request: Any, node_id: int | None = None) -> Any:
        """Send a request to a node, or to any, and return the response."""
        return self._manager.run(self._manager.send, request, *(() if node_id is None else (node_id,)))

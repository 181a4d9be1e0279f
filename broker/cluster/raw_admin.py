"""kafka-python's admin client with a call for any request, for what neither client library has a call of its own."""

from __future__ import annotations

from typing import Any

from kafka.admin import KafkaAdminClient


class RawAdmin(KafkaAdminClient):
    """Connects at once; the library's errors come through, for whoever asks to translate."""

    def __init__(self, **settings: Any) -> None:
        """Connect; what was begun is undone if no broker answers, since the library leaves its thread behind."""
        try:
            super().__init__(**settings)
        except BaseException:
            if hasattr(self, "_net"):
                self._closed = False
                self.close()
            raise

    def ask(self, request: Any, node_id: int | None = None) -> Any:
        """Send a request to a node, or to any, and wait for the answer."""
        return self._manager.run(self._manager.send, request, *(() if node_id is None else (node_id,)))

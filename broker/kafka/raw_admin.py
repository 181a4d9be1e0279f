"""kafka-python's admin client, with a method that sends any request."""

import time
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import NodeNotReadyError

_THROTTLED_S = 3.0
"""Exceeds a broker's throttle of a request: one quota window, 1 s by default."""
_PAUSE_S = 0.05


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
        return self._manager.run(self._send, request, node_id)

    async def _send(self, request: Any, node_id: int | None) -> Any:
        give_up_at = time.monotonic() + _THROTTLED_S
        while True:
            try:
                return await self._manager.send(request, node_id)
            except NodeNotReadyError:
                # While our own user is throttled the library refuses to send.
                if time.monotonic() > give_up_at:
                    raise
                await self._net.sleep(_PAUSE_S)

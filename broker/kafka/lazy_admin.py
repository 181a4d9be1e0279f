"""A connection for requests that no client library has a call for, with our errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import BrokerResponseError, ClusterAuthorizationFailedError, KafkaError, for_code

from broker.closing import Closing
from broker.errors import (
    ClientQuotaError,
    ClientQuotaNotAllowedError,
    ClientQuotaRefusedError,
    ClientQuotaUnavailableError,
)
from broker.kafka.raw_admin import RawAdmin

TIMEOUT_MS = 10_000


@dataclass(frozen=True)
class Subject:
    """What requests are about, for messages.

    Attributes:
        one: such as `a client quota`.
        rights: rights that they need.
        refused: what to check when Kafka refuses.
    """

    one: str
    rights: str
    refused: str


class LazyAdmin(Closing):
    """Connects when first asked, and again after errors.

    Args:
        settings: Of a kafka-python client, with `bootstrap_servers`.
        subject: What the requests are about.
        timeout_ms: Until an answer is given up.
    """

    def __init__(self, settings: Mapping[str, Any], subject: Subject, timeout_ms: int = TIMEOUT_MS) -> None:
        self._settings = {**settings, "request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": timeout_ms}
        self._subject = subject
        self._admin: RawAdmin | None = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def ask(self, request: Any, node_id: int | None = None) -> Any:
        """Send a request to a node, or to any; return the response, which may hold errors.

        Raises:
            ClientQuotaRefusedError: If Kafka refuses the request.
            ClientQuotaUnavailableError: If no broker answers.
        """
        return self.do(lambda admin: admin.ask(request, node_id))

    def do(self, call: Any) -> Any:
        """Call with the connected admin client; errors as of `ask`."""
        try:
            if self._admin is None:
                self._admin = RawAdmin(**self._settings)
            return call(self._admin)
        except (KafkaError, OSError) as error:
            # The next request reconnects: addresses of brokers may have changed.
            self.close()
            if isinstance(error, ClusterAuthorizationFailedError):
                raise self._not_allowed() from error
            if isinstance(error, BrokerResponseError) and not error.retriable:
                raise self._refused(str(error)) from error
            servers = self._settings["bootstrap_servers"]
            servers = servers if isinstance(servers, str) else ",".join(servers)
            msg = f"no broker answers at {servers} ({error}): check that it runs, the address and the security settings"
            raise ClientQuotaUnavailableError(msg) from error

    def error(self, code: int, message: str | None) -> ClientQuotaError | None:
        """Return the error of a code in a response; None if it is none."""
        if not code:
            return None
        kind = for_code(code)
        reason = f"{kind.__name__}: {message}" if message else kind.__name__
        if kind is ClusterAuthorizationFailedError:
            return self._not_allowed()
        if kind.retriable:
            msg = f"Kafka can't read or change {self._subject.one} now ({reason}): retrying"
            return ClientQuotaUnavailableError(msg)
        return self._refused(reason)

    def require_no_error(self, answer: Any) -> None:
        """Raise the error that a response holds, as `ask` does."""
        error = self.error(answer.error_code, answer.error_message)
        if error is not None:
            raise error

    def _not_allowed(self) -> ClientQuotaNotAllowedError:
        # Without Kafka's own words, which differ each time.
        needed = f"the enforcer's user needs {self._subject.rights} on the cluster"
        return ClientQuotaNotAllowedError(f"not authorised to read or change {self._subject.one}: {needed}")

    def _refused(self, reason: str) -> ClientQuotaRefusedError:
        return ClientQuotaRefusedError(f"Kafka refused {self._subject.one} ({reason}): {self._subject.refused}")

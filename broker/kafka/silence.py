"""Tells which brokers are silent after a request without an answer. A broker that hangs still accepts connections."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from broker.errors import BrokerUnreachableError, TopicError
from broker.kafka.errors import name_of, reason_of, unreachable

_ANSWER_S = 3.0
_MOST_ASKED = 32
_SILENT = frozenset({"_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT", "_ALL_BROKERS_DOWN", "REQUEST_TIMED_OUT"})


def result_of(
    asked: Future[Any], config: Mapping[str, str], failure: str, remedy: Callable[[KafkaException], str]
) -> Any:
    """Return a request's result.

    Raises:
        BrokerUnreachableError: If no answer came.
        TopicError: If a broker refused the request.
    """
    try:
        return asked.result()
    except KafkaException as error:
        if name_of(error) in _SILENT:
            raise no_answer(config, failure, error) from error
        msg = f"{failure} ({reason_of(error)}): {remedy(error)}"
        raise TopicError(msg) from error


def no_answer(config: Mapping[str, str], failure: str, error: KafkaException) -> BrokerUnreachableError:
    """Return the error to raise for a request without an answer."""
    found = silent_brokers(config)
    return found_silent(f"{failure} ({reason_of(error)})", config["bootstrap.servers"], found)


def found_silent(failure: str, servers: str, found: tuple[list[str], list[str]]) -> BrokerUnreachableError:
    """Return the error of a failure that says who answers and who does not, as `silent_brokers` found them.

    Examples:
        >>> found_silent("can't grant READ (timed out)", "h:1,h:2", (["broker 1 (h:1)"], ["broker 2 (h:2)"])).args[0]
        "can't grant READ (timed out): broker 2 (h:2) does not answer, but broker 1 (h:1) does. Look whether it hangs \
(its log, jstack), restart it, and try again"
    """
    answering, silent = found
    if not answering:
        return unreachable(servers, failure)
    if not silent:
        return BrokerUnreachableError(f"{failure}: all brokers answer now, so try again")
    those, others = ", ".join(silent), ", ".join(answering)
    one, it = ("does", "it") if len(silent) == 1 else ("do", "one")
    also = "does" if len(answering) == 1 else "do"
    return BrokerUnreachableError(
        f"{failure}: {those} {one} not answer, but {others} {also}. Look whether {it} hangs (its log, jstack), "
        f"restart {it}, and try again"
    )


def silent_brokers(config: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Ask each broker by itself. Return who answers within 3 s, and who does not, by id or address."""
    given = {each.strip() for each in config["bootstrap.servers"].split(",")}
    answers = _ask_each(config, given)
    found = [each for answer in answers.values() if answer for each in answer.brokers.values()]
    known = {f"{each.host}:{each.port}": each.id for each in found}
    answers |= _ask_each(config, known.keys() - given)
    names = {each: f"broker {known[each]} ({each})" if each in known else each for each in sorted(answers)}
    return [names[each] for each in names if answers[each]], [names[each] for each in names if not answers[each]]


def _ask_each(config: Mapping[str, str], addresses: Iterable[str]) -> dict[str, ClusterMetadata | None]:
    asked = sorted(addresses)[:_MOST_ASKED]
    if not asked:
        return {}
    with ThreadPoolExecutor(len(asked)) as threads:
        return dict(zip(asked, threads.map(lambda address: _ask(config, address), asked), strict=True))


def _ask(config: Mapping[str, str], address: str) -> ClusterMetadata | None:
    settings: dict[str, Any] = {**config, "bootstrap.servers": address, "log_level": 0, "error_cb": lambda _: None}
    try:
        return AdminClient(settings).list_topics(timeout=_ANSWER_S)
    except KafkaException:
        return None

"""The answer of a coordinator (Kafka 4.x) to INIT_PRODUCER_ID (KIP-360) as a pure function, and its meaning."""

from dataclasses import dataclass, replace
from enum import Enum

NO_ID = -1
NO_EPOCH = -1
MAX_EPOCH = 2**15 - 1

NONE = "NONE"
CONCURRENT = "CONCURRENT_TRANSACTIONS"
FENCED = "PRODUCER_FENCED"
INVALID_EPOCH = "INVALID_PRODUCER_EPOCH"
INVALID_REQUEST = "INVALID_REQUEST"
UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"


class Transaction(str, Enum):
    """How far the transaction of a transactional id is."""

    NONE = "none"
    ONGOING = "ongoing"
    ENDING = "ending"


@dataclass(frozen=True)
class InitRequest:
    transactional_id: str | None = None
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH

    @property
    def has_id(self) -> bool:
        """Whether the client names the id it had."""
        return self.producer_id != NO_ID


@dataclass(frozen=True)
class TransactionalState:
    """What the coordinator remembers of a transactional id.

    Attributes:
        producer_id: Its current one.
        producer_epoch: Current epoch; -1 right after the id was made.
        last_epoch: Epoch before the last bump that a client asked for with its own; else -1. A retry may name it.
        previous_producer_id: The one before the epochs ran out, -1 if that never happened.
        transaction: How far its transaction is.
    """

    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_ID
    transaction: Transaction = Transaction.NONE


@dataclass(frozen=True)
class InitDecision:
    error: str
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    state: TransactionalState | None = None


def is_exhausted(epoch: int) -> bool:
    """Whether an epoch is the last: the one above it is kept for fencing."""
    return epoch >= MAX_EPOCH - 1


def init_producer_id(request: InitRequest, state: TransactionalState | None, new_producer_id: int) -> InitDecision:
    """Answer a request as the broker does, once it is authorised."""
    if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH) or request.transactional_id == "":
        return InitDecision(INVALID_REQUEST, state=state)
    if request.transactional_id is None:
        # Blindly: whatever id and epoch the client names, it gets a new id, and nothing is kept.
        return InitDecision(NONE, new_producer_id, 0)
    known = state or TransactionalState(new_producer_id)
    if not _is_its_own(request, known):
        return InitDecision(FENCED, state=known)
    if known.transaction is Transaction.ENDING:
        return InitDecision(CONCURRENT, state=known)
    if known.transaction is Transaction.ONGOING:
        # The transaction is aborted first, under an epoch that no client ever gets; the client asks again.
        fence = replace(known, producer_epoch=known.producer_epoch + 1, last_epoch=NO_EPOCH)
        return InitDecision(CONCURRENT, state=replace(fence, transaction=Transaction.ENDING))
    if is_exhausted(known.producer_epoch):
        if request.producer_epoch in (NO_EPOCH, known.producer_epoch):
            return _answer(_rotated(request, known, new_producer_id))
        # TransactionMetadata.prepareIncrementProducerEpoch throws before it looks at the epoch that is named.
        return InitDecision(UNKNOWN_SERVER_ERROR, state=known)
    return _bumped(request, known)


def _is_its_own(request: InitRequest, state: TransactionalState) -> bool:
    if not request.has_id or state.producer_epoch == NO_EPOCH or request.producer_id == state.producer_id:
        return True
    return request.producer_id == state.previous_producer_id and is_exhausted(request.producer_epoch)


def _rotated(request: InitRequest, state: TransactionalState, new_producer_id: int) -> TransactionalState:
    last = state.producer_epoch if request.has_id else NO_EPOCH
    return TransactionalState(new_producer_id, 0, last, state.producer_id)


def _bumped(request: InitRequest, state: TransactionalState) -> InitDecision:
    bumped = replace(state, producer_epoch=state.producer_epoch + 1)
    if not request.has_id:
        return _answer(replace(bumped, last_epoch=NO_EPOCH))
    if state.producer_epoch in (request.producer_epoch, NO_EPOCH):
        return _answer(replace(bumped, last_epoch=state.producer_epoch))
    if request.producer_epoch == state.last_epoch:
        # A retry of a bump whose answer was lost: nobody else can have come between, or last_epoch would be -1.
        return _answer(state)
    return InitDecision(FENCED, state=state)


def _answer(state: TransactionalState) -> InitDecision:
    return InitDecision(NONE, state.producer_id, state.producer_epoch, state)


# What an answer means to somebody who sees only the broker's lines


class Outcome(str, Enum):
    FIRST_ID = "first id"
    NEW_ID = "new id"
    EXPIRED_ID = "expired id"
    NEW_INSTANCE = "new instance"
    EPOCH_BUMP = "epoch bump"
    BUMP_RETRY = "bump retry"
    FENCED = "fenced"
    UNKNOWN_PRODUCER = "unknown producer"
    REFUSED = "refused"
    THROTTLED = "throttled"
    BUSY = "busy"
    OTHER_ERROR = "other error"


NEW_PID = frozenset({Outcome.FIRST_ID, Outcome.NEW_ID, Outcome.EXPIRED_ID})
"""Outcomes that bring a producer id into the world; an epoch never does."""

_OF_ERROR = {
    FENCED: Outcome.FENCED,
    INVALID_EPOCH: Outcome.FENCED,
    "UNKNOWN_PRODUCER_ID": Outcome.UNKNOWN_PRODUCER,
    "INVALID_PRODUCER_ID_MAPPING": Outcome.UNKNOWN_PRODUCER,
    "CLUSTER_AUTHORIZATION_FAILED": Outcome.REFUSED,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": Outcome.REFUSED,
    INVALID_REQUEST: Outcome.REFUSED,
    "INVALID_TRANSACTION_TIMEOUT": Outcome.REFUSED,
    "UNSUPPORTED_VERSION": Outcome.REFUSED,
    "THROTTLING_QUOTA_EXCEEDED": Outcome.THROTTLED,
    CONCURRENT: Outcome.BUSY,
    "COORDINATOR_LOAD_IN_PROGRESS": Outcome.BUSY,
    "COORDINATOR_NOT_AVAILABLE": Outcome.BUSY,
    "NOT_COORDINATOR": Outcome.BUSY,
    "REQUEST_TIMED_OUT": Outcome.BUSY,
}


def classify(request: InitRequest, answer: InitDecision, *, asked_before: bool, known_before: bool) -> Outcome:
    """Say what came of a request, from what a broker logs of it.

    A bump and its retry get the same answer; only that the same was asked and answered before tells them apart.
    """
    if answer.error != NONE:
        return _OF_ERROR.get(answer.error, Outcome.OTHER_ERROR)
    if request.transactional_id is None:
        return Outcome.NEW_ID if request.has_id else Outcome.FIRST_ID
    if not request.has_id:
        if answer.producer_epoch > 0:
            return Outcome.NEW_INSTANCE
        return Outcome.EXPIRED_ID if known_before else Outcome.FIRST_ID
    if asked_before:
        return Outcome.BUMP_RETRY
    return Outcome.EPOCH_BUMP if answer.producer_id == request.producer_id else Outcome.NEW_ID

"""The rule of KIP-936: what becomes of a PID.

The rule reads the memory, and changes nothing. `state.ledger_batch` applies it.
"""

from enum import Enum

from state.memory import Memory


class Ruling(Enum):
    """What the rule says about the PID of an event that is not late."""

    KNOWN = "a layer of a live quantum holds it, so it is in use: it is written to the current quantum, and not counted"
    FREE = "it is unseen, but may be older than the watch or the loss: it is stored, and takes no token"
    UNLIMITED = "it is unseen, and no quota is in force: it is stored and counted"
    UNSTORED = "it is unseen, but the filter may have had no room for it before: it is only counted"
    ADMITTED = "it is unseen, and there is a token: it is stored, takes the token, and is counted"
    OWED = "it is refused, but brokers have it, and the debt allows it: it is stored, and takes a token"
    REFUSED = "it is refused beyond the debt: it is counted, and nothing of it is stored"


def decide(memory: Memory, pid_hash: int, tick: int, *, is_learning: bool) -> Ruling:
    """Return the ruling of a PID that an event at `tick` names.

    Args:
        memory: What is remembered of the principal, with its clock not after `tick`.
        pid_hash: The PID's hash (`state.hashing`).
        tick: The event's tick, or the clock's if that is later.
        is_learning: Whether the PID may be older than the plugin's watch, or than the loss of a ledger or of records.
    """
    if memory.filter.find(pid_hash) is not None:
        return Ruling.KNOWN
    if is_learning:
        return Ruling.FREE
    if not memory.bucket.has_quota:
        return Ruling.UNLIMITED
    if memory.window.is_saturated():
        # If such PIDs were stored, a flood could take the room of known PIDs, and so escape the quota.
        return Ruling.UNSTORED
    if memory.bucket.has_token(tick):
        return Ruling.ADMITTED
    if memory.bucket.has_credit(tick):
        return Ruling.OWED
    return Ruling.REFUSED

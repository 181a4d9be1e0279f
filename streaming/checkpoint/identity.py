"""The identity of a stream, fixed at its first start and kept in its checkpoint: id, salt, learning time, settings."""

import json
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from quota.config import QuotaConfig
from state.events import Scope
from streaming.checkpoint.spark_files import START_ANEW
from streaming.errors import CheckpointDamagedError, CheckpointError

IDENTITY_FILE = "pid-quota.json"
_FROZEN = ("window_seconds", "layer_count", "window_num")
DEFAULT_STATE_BUCKETS = 24
"""For a new checkpoint: few cost little, and Spark spreads these evenly over two and four state partitions."""


@dataclass(frozen=True)
class StreamIdentity:
    """What identifies a stream, for as long as its checkpoint exists.

    Attributes:
        stream_id: Names the checkpoint in every Delta commit: batch numbers restart with a new checkpoint.
        salt: See `state.events.Deployment`.
        learn_until_ms: See `state.events.Deployment`.
        window_seconds: Like the next three, a setting that the state depends on.
        layer_count: As above.
        window_num: As above.
        scope: As above.
        starting_offsets: Where the stream starts reading, as Spark's option `startingOffsets`; empty until that is
            decided.
        state_buckets: See `streaming.operator.ledger_group`.
        learn_from_ms: See `state.events.Deployment`.
    """

    stream_id: str
    salt: int
    learn_until_ms: int
    window_seconds: int
    layer_count: int
    window_num: int
    scope: Scope
    starting_offsets: str = ""
    state_buckets: int = 0
    learn_from_ms: int = 0


def existing(checkpoint: str) -> StreamIdentity | None:
    """Return the identity kept in a checkpoint folder, or None if there is none yet.

    Raises:
        CheckpointDamagedError: If it is damaged.
        CheckpointError: If it can't be read.
    """
    file = Path(checkpoint) / IDENTITY_FILE
    try:
        return StreamIdentity(**json.loads(file.read_text())) if file.exists() else None
    except (ValueError, TypeError) as error:
        msg = f"{file} is damaged ({error}): {START_ANEW}"
        raise CheckpointDamagedError(msg) from error
    except OSError as error:
        raise _unusable(checkpoint, error) from error


def save(checkpoint: str, identity: StreamIdentity, starting_offsets: str) -> StreamIdentity:
    """Store where a stream starts reading, and return its identity with that.

    Raises:
        CheckpointError: If it can't be written.
    """
    identity = replace(identity, starting_offsets=starting_offsets)
    try:
        _write(Path(checkpoint) / IDENTITY_FILE, identity)
    except OSError as error:
        raise _unusable(checkpoint, error) from error
    return identity


@dataclass(frozen=True)
class CheckpointOptions:
    """The options that a checkpoint stores. All but the learning time must stay as they are.

    Attributes:
        checkpoint: A folder that is a path here, as local disks and Databricks volumes are.
        config: Settings of the rules; those that the state depends on are stored.
        scope: What a budget is for.
        learn_until_ms: End of the learning time if this is the first start.
        state_buckets: Number of state buckets; None for the stored one, or `DEFAULT_STATE_BUCKETS` if new.
        learn_from_ms: Begin of that learning time.
    """

    checkpoint: str
    config: QuotaConfig
    scope: Scope
    learn_until_ms: int
    state_buckets: int | None = None
    learn_from_ms: int = 0


def load_or_create(options: CheckpointOptions) -> StreamIdentity:
    """Return the identity kept in a checkpoint folder; create it at the first start.

    Raises:
        CheckpointError: If the folder can't be used, or belongs to a stream of other settings.
    """
    checkpoint, state_buckets = options.checkpoint, options.state_buckets
    file = Path(checkpoint) / IDENTITY_FILE
    frozen: dict[str, Any] = {name: getattr(options.config, name) for name in _FROZEN}
    frozen |= {"scope": options.scope}
    if "://" in checkpoint:
        msg = f"checkpoint {checkpoint} is not a folder path: give a local folder or one below /Volumes"
        raise CheckpointError(msg)
    try:
        kept = existing(checkpoint)
        if kept is not None:
            asked = kept.state_buckets if state_buckets is None else state_buckets
            return _checked(kept, file, frozen | {"state_buckets": asked})
        if (file.parent / "metadata").exists():
            msg = f"checkpoint {checkpoint} has no {IDENTITY_FILE}: restore it from a backup, or start a new checkpoint"
            raise CheckpointError(msg)
        file.parent.mkdir(parents=True, exist_ok=True)
        buckets = DEFAULT_STATE_BUCKETS if state_buckets is None else state_buckets
        identity = StreamIdentity(
            secrets.token_hex(8),
            secrets.randbits(63),
            options.learn_until_ms,
            **frozen,
            state_buckets=buckets,
            learn_from_ms=options.learn_from_ms,
        )
        _write(file, identity)
    except OSError as error:
        raise _unusable(checkpoint, error) from error
    return identity


def _write(file: Path, identity: StreamIdentity) -> None:
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(identity), indent=2) + "\n")
    temporary.rename(file)


def _unusable(checkpoint: str, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"checkpoint folder {checkpoint} can't be used ({error}): give a folder that this user can write to"
    )


def _checked(identity: StreamIdentity, file: Path, frozen: dict[str, Any]) -> StreamIdentity:
    for name, asked in frozen.items():
        kept = getattr(identity, name)
        if kept != asked:
            msg = f"{file} was made with {name}={kept}, now {asked} is asked for: keep {kept} or use a new checkpoint"
            raise CheckpointError(msg)
    return identity

"""Retries conflicting commits of all writers, and keeps `deltalake` from deleting log files in a commit."""

import logging
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

ATTEMPTS = 20
"""Maximum attempts of a commit. They suffice for twenty scripts that set quotas at the same moment."""
_FIRST_WAIT_S = 0.05
_MAX_WAIT_S = 1.0

# delta-spark raises errors of pyspark or py4j, and a SQL warehouse those of its connector. Only their text identifies a
# conflict.
_DELTALAKE_CONFLICT = "CommitFailedError"
_SPARK_CONFLICT = re.compile(
    r"io\.delta\.exceptions\.\w*Exception|DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED)\w*"
)

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def retry_conflicts(commit: Callable[[], _Result], *, sleep: Callable[[float], None] = time.sleep) -> _Result:
    """Return the result of a commit. Retry it with exponential backoff and full jitter while it conflicts.

    Args:
        commit: Called up to `ATTEMPTS` times. It has to read the table again each time.
        sleep: Waits for a number of seconds.

    Raises:
        Exception: The commit's error, if it is not a conflict or was raised by the last attempt.
    """
    from tenacity import Retrying, before_sleep_log, retry_if_exception, stop_after_attempt, wait_random_exponential

    attempts = Retrying(
        retry=retry_if_exception(is_conflict),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=_FIRST_WAIT_S, max=_MAX_WAIT_S),
        before_sleep=before_sleep_log(_log, logging.INFO),
        sleep=sleep,
        reraise=True,
    )
    return attempts(commit)


def leaving_old_log(*, checkpoint: bool = True) -> dict[str, Any]:
    """Return arguments that keep a commit by `deltalake` from deleting expired log files. `tidy_log` deletes these.

    By default, deltalake deletes them after every 100th commit. If two processes do so at once, one of them raises
    `FileNotFoundError` although its rows are written.

    Args:
        checkpoint: Whether every 100th commit writes a checkpoint of the log.
    """
    from deltalake import PostCommitHookProperties

    hooks = PostCommitHookProperties(create_checkpoint=checkpoint, cleanup_expired_logs=False)
    return {"post_commithook_properties": hooks}


def is_conflict(error: BaseException) -> bool:
    """Return whether a commit failed because another writer's commit came first. You may retry the failed commit.

    Examples:
        >>> is_conflict(RuntimeError("[DELTA_CONCURRENT_APPEND] ConcurrentAppendException: Files were added."))
        True
        >>> is_conflict(RuntimeError("[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'."))
        False
    """
    # Compare the name, because a Databricks runtime has no `deltalake` to import the class from.
    return type(error).__name__ == _DELTALAKE_CONFLICT or _SPARK_CONFLICT.search(str(error)) is not None

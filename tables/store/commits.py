"""Retries each writer's commits after conflicts, and keeps `deltalake` from deleting log files in a commit."""

import logging
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

ATTEMPTS = 20
"""Maximum attempts of a commit: enough for twenty concurrent writers."""
_FIRST_WAIT_S = 0.05
_MAX_WAIT_S = 1.0

# Errors come from pyspark, py4j, or a SQL warehouse's connector. Only an error's text identifies a conflict.
_DELTALAKE_CONFLICT = "CommitFailedError"
_SPARK_CONFLICT = re.compile(
    r"io\.delta\.exceptions\.\w*Exception|DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED)\w*"
)

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def retry_conflicts(commit: Callable[[], _Result], *, sleep: Callable[[float], None] = time.sleep) -> _Result:
    """Return the result of `commit`. After a conflict, retry with exponential backoff and full jitter.

    `commit` is called up to `ATTEMPTS` times, and has to read the table again in each call.

    Raises:
        Exception: The first error that is not a conflict, or the error of the last attempt.
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
    """Return arguments with which a commit by `deltalake` deletes no expired log files.

    By default, every 100th commit deletes such files. Two commits that delete files at the same time may raise
    `FileNotFoundError`, although the rows are written. `tidy_log` deletes expired log files instead. If `checkpoint` is
    true, every 100th commit writes a checkpoint.
    """
    from deltalake import PostCommitHookProperties

    hooks = PostCommitHookProperties(create_checkpoint=checkpoint, cleanup_expired_logs=False)
    return {"post_commithook_properties": hooks}


def is_conflict(error: BaseException) -> bool:
    """Return whether a commit failed because another writer's commit came first.

    Examples:
        >>> is_conflict(RuntimeError("[DELTA_CONCURRENT_APPEND] ConcurrentAppendException: Files were added."))
        True
        >>> is_conflict(RuntimeError("[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'."))
        False
    """
    # Compare the name, because a Databricks runtime has no `deltalake` to import the class from.
    return type(error).__name__ == _DELTALAKE_CONFLICT or _SPARK_CONFLICT.search(str(error)) is not None

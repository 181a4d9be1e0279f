"""Detects a Databricks runtime, and handles its differences."""

import os
from collections.abc import Mapping

from streaming.errors import SecretError
from tables.errors import first_line
from tables.store.open import is_folder

_RUNTIME = "DATABRICKS_RUNTIME_VERSION"


def in_databricks(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process runs in a Databricks runtime, which provides the session, Java, Kafka and Delta.

    Examples:
        >>> in_databricks({"DATABRICKS_RUNTIME_VERSION": "17.3"}), in_databricks({})
        (True, False)
    """
    return _RUNTIME in environment


def is_local(tables: str) -> bool:
    """Return whether tables are in a local folder, where `deltalake` reads and writes them.

    Examples:
        >>> is_local("./tables"), is_local("s3://bucket/tables"), is_local("main.pid_quota")
        (True, False, False)
    """
    return is_folder(tables) and not in_databricks()


def jaas_prefix() -> str:
    """Return the prefix of a login module's class. A Databricks runtime renames the classes of the Kafka client."""
    return "kafkashaded." if in_databricks() else ""


def secret_lines(name: str) -> list[str]:
    """Return the lines of a Databricks secret.

    Args:
        name: Scope and key of the secret, as `scope/key`.

    Raises:
        SecretError: If the name has another form, or the secret can't be read. The message does not reveal the secret.
    """
    scope, slash, key = name.partition("/")
    if not (scope and slash and key):
        msg = f"secret {name!r} is not of the form scope/key: for example, write pid-quota/kafka-client"
        raise SecretError(msg)
    if not in_databricks():
        msg = f"secret {name} can only be read in a Databricks runtime: give a file with --kafka-config instead"
        raise SecretError(msg)
    # This package exists only in a Databricks runtime.
    from databricks.sdk.runtime import dbutils

    try:
        return dbutils.secrets.get(scope=scope, key=key).splitlines()
    # The error is py4j's or the SDK's, depending on the cluster's access mode.
    except Exception as error:
        reason = first_line(error)
        msg = (
            f"secret {name} can't be read: {reason}. `databricks bundle run put-secret < FILE` puts it there; "
            "the job's run-as identity needs READ on the scope"
        )
        raise SecretError(msg) from error

"""Detects a Databricks runtime and handles its peculiarities."""

import os
from collections.abc import Mapping

from streaming.errors import SecretError
from tables.errors import first_line
from tables.store.open import is_folder

_RUNTIME = "DATABRICKS_RUNTIME_VERSION"


def in_databricks(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process runs in a Databricks runtime.

    Examples:
        >>> in_databricks({"DATABRICKS_RUNTIME_VERSION": "17.3"}), in_databricks({})
        (True, False)
    """
    return _RUNTIME in environment


def is_local(tables: str) -> bool:
    """Return whether `tables` is a local folder outside a Databricks runtime.

    Examples:
        >>> is_local("./tables"), is_local("s3://bucket/tables"), is_local("main.pid_quota")
        (True, False, False)
    """
    return is_folder(tables) and not in_databricks()


def jaas_prefix() -> str:
    """Return the prefix of a login module's class name. A Databricks runtime renames the Kafka client's classes."""
    return "kafkashaded." if in_databricks() else ""


def secret_lines(name: str) -> list[str]:
    """Return the lines of a Databricks secret, given as `scope/key`.

    Raises:
        SecretError: If `name` is not of this form, or the secret can't be read. The message never contains the secret.
    """
    scope, slash, key = name.partition("/")
    if not (scope and slash and key):
        msg = f"secret {name!r} is not of the form scope/key: for example, write pid-quota/kafka-client"
        raise SecretError(msg)
    if not in_databricks():
        msg = f"secret {name} can only be read in a Databricks runtime: name a file with --command-config instead"
        raise SecretError(msg)
    # Only a Databricks runtime has this package.
    from databricks.sdk.runtime import dbutils

    try:
        return dbutils.secrets.get(scope=scope, key=key).splitlines()
    # Depending on the cluster's access mode, py4j or the SDK raises the error.
    except Exception as error:
        reason = first_line(error)
        msg = (
            f"secret {name} can't be read: {reason}. `databricks bundle run put-secret < FILE` puts it there; "
            "the job's run-as identity needs READ on the scope"
        )
        raise SecretError(msg) from error

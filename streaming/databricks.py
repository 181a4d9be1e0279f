"""What differs in a Databricks runtime: the one place that knows whether this process runs in one."""

import os
from collections.abc import Mapping

from streaming.errors import SecretError
from tables.delta import is_catalog
from tables.errors import first_line

_RUNTIME = "DATABRICKS_RUNTIME_VERSION"


def in_databricks(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether this process runs in a Databricks runtime, which brings its own session, Java, Kafka and Delta.

    Examples:
        >>> in_databricks({"DATABRICKS_RUNTIME_VERSION": "17.3"}), in_databricks({})
        (True, False)
    """
    return _RUNTIME in environment


def is_local(tables: str) -> bool:
    """Say whether tables are in a folder of this machine, where `deltalake` reads and writes them.

    Examples:
        >>> is_local("./tables"), is_local("s3://bucket/tables"), is_local("main.pid_quota")
        (True, False, False)
    """
    return not (is_catalog(tables) or "://" in tables or in_databricks())


def jaas_prefix() -> str:
    """Return what stands before the class of a login module: that runtime's Kafka client lives in another package."""
    return "kafkashaded." if in_databricks() else ""


def secret_lines(name: str) -> list[str]:
    """Return the lines of a Databricks secret.

    Args:
        name: Its scope and key, as `scope/key`.

    Raises:
        SecretError: If the name is of another form, or the secret can't be read here. Says nothing of its content.
    """
    scope, slash, key = name.partition("/")
    if not (scope and slash and key):
        msg = f"secret {name!r} is not of the form scope/key: write pid-quota/kafka-client, say"
        raise SecretError(msg)
    if not in_databricks():
        msg = f"secret {name} can be read in a Databricks runtime only: give a file by --kafka-config here"
        raise SecretError(msg)
    # Only that runtime has it.
    from databricks.sdk.runtime import dbutils

    try:
        return dbutils.secrets.get(scope=scope, key=key).splitlines()
    # Of a class that py4j or the SDK makes, by the cluster's access mode.
    except Exception as error:
        reason = first_line(error)
        msg = (
            f"secret {name} can't be read: {reason}. `databricks bundle run put-secret < FILE` puts it there; "
            "whom the job runs as must be allowed to READ the scope"
        )
        raise SecretError(msg) from error

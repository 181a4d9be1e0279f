"""Finds a Java that is new enough."""

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from jvm.errors import JavaError
from jvm.process import run_to_end

JAVA_MINIMUM_VERSION = 17
"""Spark 4 and Kafka 4 brokers need Java 17."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# A JVM prints its version within a second. Don't wait for a JVM that hangs.
_VERSION_TIMEOUT_S = 30.0


QUICK_JVM = "PID_QUOTA_QUICK_JVM"
"""Environment variable of demo and tests. If set, JVMs skip the optimizing compiler, which pays off in long runs."""


def quick_options() -> tuple[str, ...]:
    """Return JVM options that halve a start's CPU time but lower throughput; empty unless `QUICK_JVM` is set."""
    return ("-XX:TieredStopAtLevel=1",) if os.environ.get(QUICK_JVM) else ()


def find_java() -> str:
    """Return the path of `java`: in `JAVA_HOME` if set, else the first on `PATH`.

    Raises:
        JavaError: If there is no `java`, it does not run, or it is older than `JAVA_MINIMUM_VERSION`.
    """
    java, origin = _locate()
    answer = java_version(java)
    version = _VERSION.search(answer)
    if version is None:
        first_line = answer.strip().splitlines()[0] if answer.strip() else "nothing"
        msg = (
            f"{java} ({origin}) printed {first_line!r} instead of its version: "
            f"install a JDK {JAVA_MINIMUM_VERSION} or newer, or set JAVA_HOME"
        )
        raise JavaError(msg)
    if int(version[1]) < JAVA_MINIMUM_VERSION:
        msg = (
            f"Java {version[1]} found at {java} ({origin}), Java {JAVA_MINIMUM_VERSION} or newer needed: "
            f"install a newer JDK or point JAVA_HOME at one"
        )
        raise JavaError(msg)
    return java


def _locate() -> tuple[str, str]:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            msg = (
                f"JAVA_HOME is {home}, but {java} is missing or not executable: "
                f"correct or unset JAVA_HOME (Java {JAVA_MINIMUM_VERSION} or newer needed)"
            )
            raise JavaError(msg)
        return str(java), "from JAVA_HOME"
    found = shutil.which("java")
    if found is None:
        msg = (
            f"no java found (JAVA_HOME is not set, none on PATH): "
            f"install a JDK {JAVA_MINIMUM_VERSION} or newer, or set JAVA_HOME"
        )
        raise JavaError(msg)
    return found, "from PATH"


def java_version(java: str) -> str:
    """Return the (cached) output of `java -version`, or the error if Java does not run."""
    try:
        return _printed_version(java)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


@lru_cache
def _printed_version(java: str) -> str:
    # Java 8 supports `-version`, but not `--version`.
    return run_to_end([java, "-version"], timeout_s=_VERSION_TIMEOUT_S)[1]

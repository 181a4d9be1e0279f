"""Finds a Java that is new enough, or says in one line what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from broker.errors import JavaMissingError, JavaTooOldError
from broker.process import run_to_end

JAVA_MINIMUM_VERSION = 17
"""Spark 4 and Kafka 4 brokers both need Java 17."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# A JVM prints its version in well under a second; a path that hangs must not hang us.
_VERSION_TIMEOUT_S = 30.0


def find_java(minimum_version: int = JAVA_MINIMUM_VERSION) -> str:
    """Path of the java to run: of `JAVA_HOME` if that is set, else the first on `PATH`.

    Args:
        minimum_version: major version that is needed, 17 say.

    Raises:
        JavaMissingError: there is none, or it does not run.
        JavaTooOldError: it is older than `minimum_version`.
    """
    java, origin = _locate(minimum_version)
    version = _major_version(java, origin, minimum_version)
    if version < minimum_version:
        msg = (
            f"Java {version} found at {java} ({origin}), Java {minimum_version} or newer needed: "
            f"install a newer JDK or point JAVA_HOME at one"
        )
        raise JavaTooOldError(msg)
    return java


def _locate(minimum_version: int) -> tuple[str, str]:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            msg = (
                f"JAVA_HOME is {home}, but {java} is not there or not executable: "
                f"correct or unset JAVA_HOME (Java {minimum_version} or newer needed)"
            )
            raise JavaMissingError(msg)
        return str(java), "from JAVA_HOME"
    found = shutil.which("java")
    if found is None:
        msg = (
            f"no java found: JAVA_HOME is not set and there is none on PATH: "
            f"install a JDK {minimum_version} or newer, or set JAVA_HOME"
        )
        raise JavaMissingError(msg)
    return found, "from PATH"


def _major_version(java: str, origin: str, minimum_version: int) -> int:
    try:
        # `-version`, not `--version`: Java 8 knows only the first, and it is the one to recognise.
        _, answer = run_to_end([java, "-version"], timeout_s=_VERSION_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        answer = str(error)
    version = _VERSION.search(answer)
    if version is None:
        first_line = answer.strip().splitlines()[0] if answer.strip() else "nothing"
        msg = (
            f"{java} ({origin}) does not tell its version but {first_line!r}: "
            f"install a JDK {minimum_version} or newer, or set JAVA_HOME"
        )
        raise JavaMissingError(msg)
    return int(version.group(1))

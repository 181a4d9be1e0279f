"""Fetches jars by the Ivy that comes with pyspark."""

import os
import subprocess
from pathlib import Path

import pyspark

from jvm.java import find_java


def retrieve(folder: Path, *options: object, pattern: str = "[artifact]-[revision].[ext]") -> None:
    """Fetch jars into a folder, named by a pattern."""
    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    settings = os.environ.get("PID_QUOTA_IVY_SETTINGS")
    command = [find_java(), "-jar", ivy, *(("-settings", settings) if settings else ()), "-cache", folder / ".ivy"]
    command += [*options, "-retrieve", folder / pattern]
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)

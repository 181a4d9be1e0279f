"""Mounts a folder with the limits of Databricks' `/Volumes` (see `tests.kits.late_files`)."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jvm.process import reading


@contextmanager
def late_mount(backing: Path, mount: Path, delay_s: float) -> Iterator[Path]:
    for folder in (backing, mount):
        folder.mkdir(parents=True, exist_ok=True)
    with reading([sys.executable, "-m", "tests.kits.late_files", str(backing), str(mount), str(delay_s)]) as server:
        said = ""
        while not os.path.ismount(mount):
            if server.poll() is not None:
                assert server.stdout
                said = server.stdout.read()
                pytest.skip(f"a file system can't be mounted here: {said.strip()[-300:]}")
            time.sleep(0.05)
        try:
            yield mount
        finally:
            subprocess.run(["umount", "-l", str(mount)], check=True)

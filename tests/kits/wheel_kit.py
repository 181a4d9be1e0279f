"""Builds the wheel, and Python environments with it."""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_wheel(target: Path, source: Path = ROOT) -> Path:
    """Build the wheel of a source tree into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    return wheel


def venv_with_dependencies(folder: Path) -> Path:
    """Make an environment with all that ours has but the project itself; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    # A folder named in a .pth file is put on the path, but the .pth files in it are not read: so our editable
    # install, which is one, stays out, and the wheel has to bring every module itself.
    (site_packages,) = (folder / "lib").glob("python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin" / "python"

"""A Python environment like a cluster's: the runtime's libraries, and the job's wheel.

The first run fetches pyspark 4.0 (434 MB), the runtime's libraries, the wheel's dependencies and two jars into the
folder of the jars; later ones are offline.
"""

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.kits.databricks_kit import ROOT, load_bundle
from tests.kits.ivy_kit import retrieve
from tests.kits.wheel_kit import build_wheel

_HERE = Path(__file__).parents[1] / "bundle" / "spark_4_0"
_RUNTIME, _BESIDE, _IVY_FILE = _HERE / "runtime.txt", _HERE / "runtime_no_deps.txt", _HERE / "ivy.xml"
_LIMIT_S = 1800
_PYTHON = "python3.12"


@dataclass(frozen=True)
class Cluster:
    python: str
    jars: tuple[str, ...]
    runtime: dict[str, str]
    installed: dict[str, str]


def cluster(folder: Path) -> Cluster:
    """Make it, or bring the one in a folder up to date.

    Another worker's job may run on it, so the wheel is installed only if it is another one.
    """
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(folder / "dist", ignore_errors=True)
        wheel = build_wheel(folder / "dist")
        if _stamp() != _read(folder / ".complete"):
            _make(folder, wheel)
            (folder / ".complete").write_text(_stamp(), encoding="utf-8")
            (folder / ".wheel").unlink(missing_ok=True)
        of_wheel = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if of_wheel != _read(folder / ".wheel"):
            _pip(folder / "job", "install", "--no-deps", "--no-index", "--force-reinstall", wheel)
            (folder / ".wheel").write_text(of_wheel, encoding="utf-8")
        versions = _versions(folder / "runtime"), _versions(folder / "job")
    jars = tuple(str(jar) for jar in sorted((folder / "jars").glob("*.jar")))
    return Cluster(str(_python(folder / "job")), jars, *versions)


def _make(folder: Path, wheel: Path) -> None:
    for name in ("runtime", "job"):
        _run(_interpreter(), "-m", "venv", "--clear", folder / name)
    _pip(folder / "runtime", "install", "-r", _RUNTIME)
    _pip(folder / "runtime", "install", "--no-deps", "-r", _BESIDE)
    # What is there already is not installed again, and what has to be newer comes before it.
    (_site_packages(folder / "job") / "runtime.pth").write_text(
        f"{_site_packages(folder / 'runtime')}\n", encoding="utf-8"
    )
    _pip(folder / "job", "install", wheel, *(part for file in _requirements() for part in ("-r", file)))
    retrieve(folder / "jars", "-ivy", _IVY_FILE, "-confs", "spark", "-types", "jar", "bundle")


def _requirements() -> list[Path]:
    tasks = [task for job in load_bundle("prod").resources("jobs").values() for task in job["tasks"]]
    libraries = [library for task in tasks for library in task.get("libraries", [])]
    names = {library["requirements"] for library in libraries if "requirements" in library}
    return [ROOT / "resources" / name for name in sorted(names)]


def _interpreter() -> str:
    """Return the runtime's Python, 3.12, where there is one; ours otherwise."""
    there = [shutil.which(_PYTHON), *sorted(Path.home().glob(f".pyenv/versions/3.12*/bin/{_PYTHON}"))]
    return next((str(each) for each in there if each and _runs(each)), sys.executable)


def _runs(python: str | Path) -> bool:
    # A manager's stand-in of a version that is not chosen ends with an error.
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _stamp() -> str:
    files = (_RUNTIME, _BESIDE, _IVY_FILE, ROOT / "pyproject.toml", *_requirements())
    texts = [_interpreter().encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _python(venv: Path) -> Path:
    return venv / "bin" / "python"


def _site_packages(venv: Path) -> Path:
    (found,) = (venv / "lib").glob("python*/site-packages")
    return found


def _versions(venv: Path) -> dict[str, str]:
    listed = _run(_python(venv), "-m", "pip", "list", "--format=json", "--path", _site_packages(venv))
    return {each["name"].lower(): each["version"] for each in json.loads(listed)}


def _pip(venv: Path, *arguments: object) -> None:
    _run(_python(venv), "-m", "pip", "--disable-pip-version-check", *arguments)


def _run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

"""Fetches the JVM dependencies that `jvm/ivy.xml` pins: `python -m jvm FOLDER`.

`jvm/jars.sha256` pins the jars' digests. This module verifies the digests before each use, because anybody may have
written to the folder `.jars` in the working directory. Ivy comes with pyspark. For a mirror, set
`PID_QUOTA_IVY_SETTINGS` to your `ivysettings.xml`. Set proxies with `JAVA_TOOL_OPTIONS`.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
from argparse import ArgumentParser
from collections import deque
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

from rich.console import Console

from jvm.errors import JarsError, JvmError
from jvm.java import find_java
from jvm.process import reading

_SETS = ("spark", "kafka", "compiler")
_BLOCK = 1 << 20
_COMPLETE = ".complete"
_CACHE = ".ivy"
_DOWNLOADING = re.compile(r"downloading \S*/([^/\s]+) \.\.\.")
# Words in Ivy's output if it fails.
_FAILURE = re.compile(r"unresolved dependency|not found|FAILED|[Ee]xception|ERROR")
_LAST_LINES = 200


@dataclass(frozen=True)
class JarSets:
    """The jars of each configuration in `jvm/ivy.xml`, in the order of `jvm/jars.sha256`."""

    spark: tuple[Path, ...]
    kafka: tuple[Path, ...]
    compiler: tuple[Path, ...]


def jars_folder() -> Path:
    """Return the folder of the jars: `PID_QUOTA_JARS`, else `./.jars` if it exists, else the user's cache."""
    chosen = os.environ.get("PID_QUOTA_JARS")
    if chosen:
        return Path(chosen).expanduser()
    local = Path(".jars")
    if local.is_dir():
        return local.resolve()
    return Path("~/.cache/pid-quota/jars").expanduser()


def ensure_jars(folder: Path | None = None, console: Console | None = None) -> JarSets:
    """Return the jars in a folder (default: `jars_folder()`). Fetch the jars, with Java, unless the folder is complete.

    Raises:
        JavaError: If there is no usable Java.
        JarsError: If pyspark is missing, the fetch failed, or a jar does not match its digest.
    """
    folder = folder or jars_folder()
    if not _is_complete(folder):
        console = console or Console(stderr=True)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # The previous holder of the lock may have fetched the jars.
            if not _is_complete(folder):
                _fetch(folder, console)
    return JarSets(*(_checked(folder, name) for name in _SETS))


def spark_jars(folder: Path | None = None) -> list[str]:
    """Return the jars of Delta and Spark's Kafka source. Raises JarsError if a jar is missing or altered."""
    return [str(jar) for jar in _complete_jars(folder, "spark")]


def kafka_classpath(folder: Path | None = None) -> str:
    """Return a Kafka broker's class path. Raises JarsError if a jar is missing or altered."""
    return os.pathsep.join(str(jar) for jar in _complete_jars(folder, "kafka"))


def _complete_jars(folder: Path | None, name: str) -> tuple[Path, ...]:
    folder = folder or jars_folder()
    if not _is_complete(folder):
        msg = f"the jars in {folder} are missing or of another version: run `python -m jvm {folder}`"
        raise JarsError(msg)
    return _checked(folder, name)


def _pinned(name: str) -> dict[str, str]:
    lines = resources.files("jvm").joinpath("jars.sha256").read_text(encoding="ascii").splitlines()
    pinned = {path: digest for digest, path in (line.split() for line in lines)}
    return {path: digest for path, digest in pinned.items() if path.startswith(f"{name}/")}


def _checked(folder: Path, name: str) -> tuple[Path, ...]:
    for path, digest in _pinned(name).items():
        found = _sha256(folder / path)
        if found != digest:
            msg = (
                f"{folder / path} does not match its pinned digest (SHA-256 {found}, not {digest}): find out who put "
                f"it there, delete {folder} and run `python -m jvm {folder}`"
            )
            raise JarsError(msg)
    return tuple(folder / path for path in _pinned(name))


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    try:
        with file.open("rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        msg = f"can't read {file} ({error.strerror}): delete the folder and fetch the jars again"
        raise JarsError(msg) from error
    return digest.hexdigest()


def _ivy_content() -> bytes:
    return resources.files("jvm").joinpath("ivy.xml").read_bytes()


def _is_complete(folder: Path) -> bool:
    try:
        stamp = (folder / _COMPLETE).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    digest = hashlib.sha256(_ivy_content()).hexdigest()
    return stamp == digest and all((folder / path).exists() for name in _SETS for path in _pinned(name))


def _fetch(folder: Path, console: Console) -> None:
    java, ivy_jar = find_java(), _ivy_jar()
    # Files of another version or an interrupted run must not get on a class path. Keep Ivy's cache, because it holds
    # finished downloads.
    (folder / _COMPLETE).unlink(missing_ok=True)
    for name in _SETS:
        shutil.rmtree(folder / name, ignore_errors=True)
    ivy_file, content = folder / "ivy.xml", _ivy_content()
    ivy_file.write_bytes(content)

    console.print(f"fetching the JVM parts into {folder}, about 70 MB, once")
    settings = os.environ.get("PID_QUOTA_IVY_SETTINGS")
    command = [java, "-jar", str(ivy_jar), *(["-settings", settings] if settings else [])]
    command += ["-ivy", str(ivy_file), "-cache", str(folder / _CACHE), "-confs", *_SETS]
    pattern = f"{folder}/[conf]/[artifact]-[revision](-[classifier]).[ext]"
    _run_ivy([*command, "-retrieve", pattern, "-types", "jar", "bundle"], console)
    jars = [jar for name in _SETS for jar in _checked(folder, name)]

    # Write the stamp (`_COMPLETE`) last and atomically. A process that sees the stamp also sees all jars.
    stamp = folder / (_COMPLETE + ".new")
    stamp.write_text(hashlib.sha256(content).hexdigest() + "\n", encoding="ascii")
    stamp.replace(folder / _COMPLETE)
    shutil.rmtree(folder / _CACHE, ignore_errors=True)
    console.print(f"fetched {len(jars)} jars")


def _run_ivy(command: list[str], console: Console) -> None:
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    jars = 0
    # The process ends with the block, so an abandoned fetch writes no more files.
    with reading(command) as process, console.status("resolving versions") as status:
        for line in process.stdout or ():
            last_lines.append(line.strip())
            download = _DOWNLOADING.search(line)
            if download:
                jars += download[1].endswith(".jar")
                status.update(f"{download[1]} (jar {jars})")
        code = process.wait()
    if code != 0:
        reason = next((line for line in reversed(last_lines) if _FAILURE.search(line)), "no reason given")
        msg = f"Ivy can't fetch the jars (exit code {code}: {reason}): check the network or proxy and try again"
        raise JarsError(msg)


def _ivy_jar() -> Path:
    # Locate pyspark without an import. The import takes a second, and a base installation lacks pyspark.
    spec = importlib.util.find_spec("pyspark")
    folders = (spec.submodule_search_locations if spec else None) or []
    jars = sorted(jar for folder in folders for jar in Path(folder, "jars").glob("ivy-*.jar"))
    if not jars:
        wheel = f"pid_quota-{metadata.version('pid-quota')}-py3-none-any.whl"
        found = f"at {folders[0]} lacks its jars" if folders else "is not installed"
        msg = f"pyspark, whose Ivy fetches the jars, {found}: pip install '{wheel}[spark]'"
        raise JarsError(msg)
    return jars[-1]


def main(arguments: list[str]) -> int:
    """Run `python -m jvm [FOLDER]`, and return the exit code."""
    parser = ArgumentParser("python -m jvm", description="Fetch the JVM parts, about 70 MB, once.")
    parser.add_argument("folder", type=Path, nargs="?", default=jars_folder(), help="default: %(default)s")
    folder = parser.parse_args(arguments).folder.resolve()
    console = Console(stderr=True)
    try:
        ensure_jars(folder, console)
        # If the stamp (`_COMPLETE`) were older than ivy.xml, `make` would rerun the target each time.
        (folder / _COMPLETE).touch()
    except JvmError as error:
        console.print(f"pid-quota: {error}", style="red", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("pid-quota: interrupted; run it again to resume", markup=False)
        return 130
    return 0

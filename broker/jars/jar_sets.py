"""Fetches the JVM dependencies that `jvm/ivy.xml` pins, once: `python -m broker.jars FOLDER`.

`jvm/jars.sha256` says what is in each of them. It is compared when they are fetched, and before each use: a folder in
the working directory may be anybody's. What it does not name is on no class path. (Hashing all 68 MB takes 0.2 s.)

Ivy comes with pyspark and resolves from its built-in default settings. Behind a mirror, point the environment variable
`PID_QUOTA_IVY_SETTINGS` at an `ivysettings.xml` of your own; proxies are set with `JAVA_TOOL_OPTIONS`, as for any JVM.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from rich.console import Console

from broker.errors import BrokerError, JarsError, PysparkMissingError
from broker.jars.java import find_java
from broker.process import reading

_SETS = ("spark", "kafka")
_BLOCK = 1 << 20
_COMPLETE = ".complete"
_CACHE = ".ivy"
_DOWNLOADING = re.compile(r"downloading \S*/([^/\s]+) \.\.\.")
# What Ivy prints when it gives up, in the order of how much it helps.
_FAILURE = re.compile(r"unresolved dependency|not found|FAILED|[Ee]xception|ERROR")
_LAST_LINES = 200


@dataclass(frozen=True)
class JarSets:
    """The jars of the two configurations of `jvm/ivy.xml`, each in the order of `jvm/jars.sha256`."""

    spark: tuple[Path, ...]
    kafka: tuple[Path, ...]


def jars_folder() -> Path:
    """Where the jars are: `PID_QUOTA_JARS`, else `./.jars` if that exists, else a folder in the user's cache."""
    chosen = os.environ.get("PID_QUOTA_JARS")
    if chosen:
        return Path(chosen).expanduser()
    local = Path(".jars")
    if local.is_dir():
        return local.resolve()
    return Path("~/.cache/pid-quota/jars").expanduser()


def ensure_jars(folder: Path | None = None, console: Console | None = None) -> JarSets:
    """Fetch what is not there yet; a complete folder is taken as it is, without network or Java.

    Args:
        folder: where they go, `jars_folder()` if left out.
        console: where the progress is shown, stderr if left out.

    Raises:
        JavaError: no Java, or too old.
        JarsError: pyspark is missing, the fetch failed, or a jar is not the one that is pinned.
    """
    folder = folder or jars_folder()
    if not _is_complete(folder):
        console = console or Console(stderr=True)
        folder.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(folder):
            # The one who held the lock before us may have fetched them.
            if not _is_complete(folder):
                _fetch(folder, console)
    return JarSets(*(_checked(folder, name) for name in _SETS))


def spark_jars(folder: Path | None = None) -> list[str]:
    """Paths for `spark.jars`: Delta and the Kafka source, which pyspark does not ship.

    Raises:
        JarsError: If they are not complete, or one is not the one that is pinned.
    """
    return [str(jar) for jar in _complete_jars(folder, "spark")]


def kafka_classpath(folder: Path | None = None) -> str:
    """Class path of a whole Kafka broker; errors as of `spark_jars`."""
    return os.pathsep.join(str(jar) for jar in _complete_jars(folder, "kafka"))


def _complete_jars(folder: Path | None, name: str) -> tuple[Path, ...]:
    folder = folder or jars_folder()
    if not _is_complete(folder):
        msg = f"the jars in {folder} are missing or of another version: run `python -m broker.jars {folder}`"
        raise JarsError(msg)
    return _checked(folder, name)


def _pinned(name: str) -> dict[str, str]:
    """Return the SHA-256 of each jar of a set by its path below the folder, as `sha256sum` writes them."""
    lines = resources.files("jvm").joinpath("jars.sha256").read_text(encoding="ascii").splitlines()
    pinned = {path: digest for digest, path in (line.split() for line in lines)}
    return {path: digest for path, digest in pinned.items() if path.startswith(f"{name}/")}


def _checked(folder: Path, name: str) -> tuple[Path, ...]:
    for path, digest in _pinned(name).items():
        found = _sha256(folder / path)
        if found != digest:
            msg = (
                f"{folder / path} is not the jar that is pinned (SHA-256 {found}, not {digest}): find out who put it "
                f"there, delete {folder} and run `python -m broker.jars {folder}`"
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
        msg = f"{file} can't be read ({error.strerror}): delete the folder and fetch the jars anew"
        raise JarsError(msg) from error
    return digest.hexdigest()


def _ivy_file() -> bytes:
    return resources.files("jvm").joinpath("ivy.xml").read_bytes()


def _digest() -> str:
    return hashlib.sha256(_ivy_file()).hexdigest()


def _is_complete(folder: Path) -> bool:
    try:
        stamp = (folder / _COMPLETE).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return stamp == _digest() and all((folder / path).exists() for name in _SETS for path in _pinned(name))


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    # `make jars` and a test run may start together; the second then waits for the first instead of fetching twice.
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path, console: Console) -> None:
    java, ivy_jar = find_java(), _ivy_jar()
    # Whatever a former version or an interrupted run left must not end up on a class path. Ivy's cache stays: its
    # finished downloads are not repeated.
    (folder / _COMPLETE).unlink(missing_ok=True)
    for name in _SETS:
        shutil.rmtree(folder / name, ignore_errors=True)
    ivy_file = folder / "ivy.xml"
    ivy_file.write_bytes(_ivy_file())

    console.print(f"fetching the JVM parts into {folder}, about 70 MB, once")
    _run_ivy([java, "-jar", str(ivy_jar), *_ivy_arguments(folder, ivy_file)], console)
    jars = [jar for name in _SETS for jar in _checked(folder, name)]

    # Last, and atomic: whoever sees the stamp sees everything.
    stamp = folder / (_COMPLETE + ".new")
    stamp.write_text(_digest() + "\n", encoding="ascii")
    stamp.replace(folder / _COMPLETE)
    shutil.rmtree(folder / _CACHE, ignore_errors=True)
    console.print(f"fetched {len(jars)} jars")


def _ivy_arguments(folder: Path, ivy_file: Path) -> list[str]:
    settings = os.environ.get("PID_QUOTA_IVY_SETTINGS")
    return [
        *(["-settings", settings] if settings else []),
        *["-ivy", str(ivy_file), "-cache", str(folder / _CACHE), "-confs", *_SETS],
        *["-retrieve", f"{folder}/[conf]/[artifact]-[revision](-[classifier]).[ext]", "-types", "jar", "bundle"],
    ]


def _run_ivy(command: list[str], console: Console) -> None:
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    jars = 0
    # Until the block ends: a fetch nobody waits for must not go on writing.
    with reading(command) as process, console.status("asking for the versions") as status:
        for line in process.stdout or ():
            last_lines.append(line.strip())
            download = _DOWNLOADING.search(line)
            if download:
                jars += download[1].endswith(".jar")
                status.update(f"{download[1]} (jar {jars})")
        code = process.wait()
    if code != 0:
        reason = next((line for line in reversed(last_lines) if _FAILURE.search(line)), "no reason given")
        msg = f"ivy could not fetch the jars (exit code {code}: {reason}): check the network or proxy and repeat"
        raise JarsError(msg)


def _ivy_jar() -> Path:
    # Only located, not imported: importing pyspark takes a second, and a base installation has none.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        msg = (
            "pyspark is not installed, and the jars are fetched with the Ivy it brings: pip install 'pid-quota[local]'"
        )
        raise PysparkMissingError(msg)
    jars = sorted(Path(spec.submodule_search_locations[0], "jars").glob("ivy-*.jar"))
    if not jars:
        msg = f"pyspark at {spec.submodule_search_locations[0]} has no jars/ivy-*.jar: pip install 'pid-quota[local]'"
        raise JarsError(msg)
    return jars[-1]


def main(arguments: list[str]) -> int:
    """Entry point of `python -m broker.jars FOLDER`; exit code 1 and one line on any error of ours."""
    console = Console(stderr=True)
    if len(arguments) > 1:
        console.print("usage: python -m broker.jars [FOLDER]", markup=False)
        return 2
    try:
        folder = Path(arguments[0]).resolve() if arguments else jars_folder()
        ensure_jars(folder, console)
        # `make` compares times: a stamp older than ivy.xml would bring us here on every call.
        (folder / _COMPLETE).touch()
    except BrokerError as error:
        console.print(f"pid-quota: {error}", style="red", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("pid-quota: interrupted; run it again to go on", markup=False)
        return 130
    return 0

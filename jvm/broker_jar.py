"""Builds the jar that brokers load, `pid-quota-broker.jar`: `python -m jvm.broker_jar JAR [FOLDER_OF_JARS]`.

The jar contains the plugin. The pinned Eclipse compiler compiles `plugin/` for Java 11, and needs only a JRE. Builds of
the same source have the same bytes. A wheel of pid-quota contains the jar and the source.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from argparse import ArgumentParser
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path

from jvm.errors import JarsError, JvmError
from jvm.jar_sets import ensure_jars, jars_folder
from jvm.java import find_java
from jvm.process import run_to_end

JAR_NAME = "pid-quota-broker.jar"

_SOURCE = Path(__file__).parents[1] / "plugin"
_FLAGS = ("-11", "-encoding", "UTF-8", "-failOnWarning", "-warn:+resource,raw,unchecked,fallthrough")
_TIMEOUT_S = 120.0
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
_MANIFEST = "META-INF/MANIFEST.MF"


def broker_jar(jars: Path | None = None) -> Path:
    """Return the jar for brokers: the wheel's jar if it matches the source, else a jar built once per source version.

    Raises:
        JavaError: If there is no usable Java.
        JarsError: If jars can't be fetched, or the source does not compile.
    """
    packaged = resources.files("jvm").joinpath(JAR_NAME)
    if packaged.is_file() and isinstance(packaged, Path) and _is_current(packaged):
        return packaged
    built = (jars or jars_folder()) / "built" / _source_digest()[:16] / JAR_NAME
    return built if built.is_file() else build_broker_jar(built, jars)


def build_broker_jar(jar: Path, jars: Path | None = None) -> Path:
    """Compile `plugin/` into `jar`, with the jars in the folder `jars`. Raises the same errors as `broker_jar`."""
    sets = ensure_jars(jars)
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sources, classes = Path(folder, "sources"), Path(folder, "classes")
        for name, content in _sources():
            sources.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
            sources.joinpath(name).write_bytes(content)
        classpath = os.pathsep.join(map(str, (*sets.kafka, *sets.compiler)))
        compiler = ["-cp", os.pathsep.join(map(str, sets.compiler)), "org.eclipse.jdt.internal.compiler.batch.Main"]
        _compile([find_java(), *compiler, *_FLAGS, "-cp", classpath, "-d", str(classes), str(sources)])
        # Several processes may build at once, so the name contains the process id.
        new = jar.with_name(f"{jar.name}.{os.getpid()}.new")
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, _MANIFEST, _manifest().encode())
            for path in sorted(classes.rglob("*.class")):
                _add(archive, path.relative_to(classes).as_posix(), path.read_bytes())
        new.replace(jar)
    return jar


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # With a fixed date, two builds have the same bytes.
    archive.writestr(zipfile.ZipInfo(name, _FIRST_DATE), content, zipfile.ZIP_DEFLATED)


def _manifest() -> str:
    fields = {"Implementation-Version": metadata.version("pid-quota"), "Source-Digest": _source_digest()}
    return "Manifest-Version: 1.0\n" + "".join(f"{name}: {value}\n" for name, value in fields.items())


def _is_current(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(_MANIFEST).decode() == _manifest()
    except (OSError, KeyError, UnicodeDecodeError, zipfile.BadZipFile):
        return False


def _sources() -> list[tuple[str, bytes]]:
    return [(file.relative_to(_SOURCE).as_posix(), file.read_bytes()) for file in sorted(_SOURCE.rglob("*.java"))]


@lru_cache
def _source_digest() -> str:
    # A manifest's lines may have at most 72 bytes.
    content = b"".join(name.encode() + b"\0" + text for name, text in _sources())
    return hashlib.sha256(content).hexdigest()[:32]


def _compile(command: list[str]) -> None:
    try:
        code, answer = run_to_end(command, _TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        code, answer = 1, str(error)
    if code != 0:
        msg = f"the plugin does not compile: {answer.strip()}"
        raise JarsError(msg)


def main(arguments: list[str]) -> int:
    """Run `python -m jvm.broker_jar JAR [FOLDER_OF_JARS]`, and return the exit code."""
    parser = ArgumentParser("python -m jvm.broker_jar", description="Build the jar that brokers load.")
    parser.add_argument("jar", type=Path, help="the file to write")
    parser.add_argument("jars", type=Path, nargs="?", help=f"folder of the fetched jars, default: {jars_folder()}")
    options = parser.parse_args(arguments)
    try:
        print(build_broker_jar(options.jar, options.jars))
    except JvmError as error:
        print(f"pid-quota: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Builds the jar of `pidquota.HoldAuthorizer`: `python -m broker.jars.authorizer_jar JAR [FOLDER_OF_JARS]`.

javac against the pinned Kafka jars, for Java 11, which Kafka 3.7 runs on.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from importlib import resources
from pathlib import Path

from broker.errors import BrokerError, JarsError
from broker.jars.jar_sets import ensure_jars
from broker.jars.java import find_java
from broker.process import run_to_end

# Not --release: it hides the records that classes of Kafka 4 are.
_FLAGS = ("-source", "11", "-target", "11", "-Xlint:all", "-Xlint:-options", "-Werror", "-encoding", "UTF-8")
_TIMEOUT_S = 120.0
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)


def build_authorizer(jar: Path, jars: Path | None = None) -> Path:
    """Compile `jvm/authorizer` into a jar; the same source makes the same bytes.

    Args:
        jar: the file to write.
        jars: folder of the Kafka jars; `jars_folder()` if left out.

    Raises:
        JavaError: no Java, or too old.
        JarsError: there is no javac, or the source does not compile.
    """
    classpath = os.pathsep.join(map(str, ensure_jars(jars).kafka))
    jar.parent.mkdir(parents=True, exist_ok=True)
    with (
        resources.as_file(resources.files("jvm").joinpath("authorizer")) as sources,
        tempfile.TemporaryDirectory() as to,
    ):
        files = [str(file) for file in sorted(sources.glob("*.java"))]
        _compile([_javac(), *_FLAGS, "-cp", classpath, "-d", to, *files])
        new = jar.with_suffix(".new")
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(Path(to).rglob("*.class")):
                # Dated alike, so that two builds can be compared.
                name = zipfile.ZipInfo(str(path.relative_to(to)), _FIRST_DATE)
                archive.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
        new.replace(jar)
    return jar


def _javac() -> str:
    javac = Path(find_java()).resolve().with_name("javac")
    if not javac.exists():
        msg = f"there is no {javac}: install a JDK (a JRE has no compiler), or set JAVA_HOME to one"
        raise JarsError(msg)
    return str(javac)


def _compile(command: list[str]) -> None:
    try:
        code, answer = run_to_end(command, _TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        code, answer = 1, str(error)
    if code != 0:
        msg = f"the authorizer does not compile: {answer.strip()}"
        raise JarsError(msg)


def main(arguments: list[str]) -> int:
    """Entry point of `python -m broker.jars.authorizer_jar JAR [FOLDER_OF_JARS]`."""
    try:
        print(build_authorizer(*map(Path, arguments)))
    except BrokerError as error:
        print(f"pid-quota: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

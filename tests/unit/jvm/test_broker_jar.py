import zipfile
from pathlib import Path

import pytest

from jvm.broker_jar import JAR_NAME, build_broker_jar
from wire.holds import HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS

JAVA_11 = 55
"""The major version of its class files."""


@pytest.fixture(scope="module")
def jar(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_broker_jar(tmp_path_factory.mktemp("jar") / JAR_NAME, jars)


def test_two_builds_are_the_same_bytes(jar: Path, jars: Path, tmp_path: Path) -> None:
    assert build_broker_jar(tmp_path / JAR_NAME, jars).read_bytes() == jar.read_bytes()


def test_its_classes_run_on_java_11(jar: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        classes = {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}

    assert {REPORTER_CLASS.replace(".", "/") + ".class", HOLD_AUTHORIZER.replace(".", "/") + ".class"} <= classes.keys()
    assert {content[:4] for content in classes.values()} == {b"\xca\xfe\xba\xbe"}
    assert {int.from_bytes(content[6:8], "big") for content in classes.values()} == {JAVA_11}


def test_it_holds_nothing_but_its_own_classes(jar: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"META-INF", "pidquota"}

import hashlib
import importlib.util
import os
from importlib import resources
from pathlib import Path

import pytest

from jvm import jar_sets
from jvm.errors import JarsError

IVY_FILE = resources.files("jvm").joinpath("ivy.xml").read_bytes()


@pytest.fixture(autouse=True)
def pins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jars of a few bytes are pinned, instead of ours."""
    if "real_pins" not in request.fixturenames:
        digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("spark", "kafka", "compiler")}
        monkeypatch.setattr(jar_sets, "_pinned", lambda name: {f"{name}/{name}.jar": digests[name]})


@pytest.fixture
def real_pins() -> None:
    """What `jvm/jars.sha256` says."""


def complete(folder: Path) -> Path:
    for name in ("spark", "kafka", "compiler"):
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}.jar").write_text(name)
    (folder / ".complete").write_text(hashlib.sha256(IVY_FILE).hexdigest(), encoding="ascii")
    return folder


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tries to fetch fails at once."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))


@pytest.mark.usefixtures("no_java")
def test_a_complete_folder_needs_neither_java_nor_network(tmp_path: Path) -> None:
    folder = complete(tmp_path / "jars")

    assert jar_sets.ensure_jars(folder) == jar_sets.JarSets(
        (folder / "spark/spark.jar",), (folder / "kafka/kafka.jar",), (folder / "compiler/compiler.jar",)
    )
    assert jar_sets.spark_jars(folder) == [str(folder / "spark/spark.jar")]
    assert jar_sets.kafka_classpath(folder) == str(folder / "kafka/kafka.jar")
    assert jar_sets.main([str(folder)]) == 0


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("damage", ["no stamp", "other ivy.xml", "no jars"])
def test_an_incomplete_folder_is_fetched_anew(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = complete(tmp_path / "jars")
    if damage == "no stamp":
        (folder / ".complete").unlink()
    elif damage == "other ivy.xml":
        (folder / ".complete").write_text("0" * 64, encoding="ascii")
    else:
        (folder / "kafka/kafka.jar").unlink()

    assert jar_sets.main([str(folder)]) == 1

    assert "JAVA_HOME" in capsys.readouterr().err
    with pytest.raises(JarsError, match=r"run `python -m jvm"):
        jar_sets.spark_jars(folder)


@pytest.mark.usefixtures("no_java")
def test_a_jar_that_is_not_the_pinned_one_is_never_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = complete(tmp_path / "jars")
    jar = folder / "spark/spark.jar"
    kept = jar.stat()
    jar.write_text("SPARK")
    # Whoever may write the folder may also set times and stamps.
    os.utime(jar, ns=(kept.st_atime_ns, kept.st_mtime_ns))

    assert jar_sets.main([str(folder)]) == 1

    assert "does not match its pinned digest" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(JarsError, match="does not match its pinned digest"):
        jar_sets.spark_jars(folder)
    assert jar_sets.kafka_classpath(folder) == str(folder / "kafka/kafka.jar")


def test_a_jar_that_nobody_pinned_is_on_no_class_path(tmp_path: Path) -> None:
    folder = complete(tmp_path / "jars")
    (folder / "spark/a-first-one.jar").write_text("evil")

    assert jar_sets.spark_jars(folder) == [str(folder / "spark/spark.jar")]


@pytest.mark.usefixtures("real_pins")
def test_the_pins_are_of_the_jars_that_are_used_here(request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue("jars")
    found = {
        str(jar.relative_to(folder)): hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*/*.jar")
    }
    lines = resources.files("jvm").joinpath("jars.sha256").read_text(encoding="ascii").splitlines()
    assert {path: digest for digest, path in (line.split() for line in lines)} == found


def test_without_pyspark_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(JarsError, match=r"pip install 'pid_quota-[\d.]+-py3-none-any.whl\[spark\]'"):
        jar_sets.ensure_jars(tmp_path)


def test_a_failed_fetch_gives_ivys_reason_and_leaves_no_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "ivysettings.xml"
    # A resolver that knows nothing: what a machine without network sees, only at once.
    settings.write_text(
        f"""<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">
        <artifact pattern="{tmp_path}/none/[artifact].[ext]"/></filesystem></resolvers></ivysettings>""",
        encoding="ascii",
    )
    monkeypatch.setenv("PID_QUOTA_IVY_SETTINGS", str(settings))

    with pytest.raises(JarsError, match=r"exit code 1.*(not found|unresolved).*check the network"):
        jar_sets.ensure_jars(tmp_path / "jars")
    assert not (tmp_path / "jars/.complete").exists()


def test_the_folder_is_chosen_by_the_environment_then_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PID_QUOTA_JARS", raising=False)
    assert jar_sets.jars_folder() == tmp_path / ".cache/pid-quota/jars"
    (tmp_path / ".jars").mkdir()
    assert jar_sets.jars_folder() == tmp_path / ".jars"
    monkeypatch.setenv("PID_QUOTA_JARS", str(tmp_path / "mine"))
    assert jar_sets.jars_folder() == tmp_path / "mine"

"""The Databricks bundle, read offline as its command line would: no workspace was asked."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from databricks.bundles.alerts import Alert
from databricks.bundles.apps import App
from databricks.bundles.dashboards import Dashboard
from databricks.bundles.genie_spaces import GenieSpace
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.secret_scopes import SecretScope
from databricks.bundles.volumes import Volume
from packaging.requirements import Requirement

from jobs import __version__
from jobs.cli import load_command
from tables.schema.specs import TABLES
from tables.schema.views import views
from tables.store.open import is_catalog
from tests.kits.databricks_kit import (
    GIVEN,
    REMOTE,
    ROOT,
    SPARK_OF_RUNTIME,
    TARGETS,
    Bundle,
    included,
    load_bundle,
    load_yaml,
    texts,
)

MODELS: dict[str, Any] = {
    "jobs": Job,
    "schemas": Schema,
    "volumes": Volume,
    "secret_scopes": SecretScope,
    "dashboards": Dashboard,
    "genie_spaces": GenieSpace,
    "alerts": Alert,
    "apps": App,
}
STREAMS = ("stream", "backfill")
SEVERAL_VERSIONS = ("duckdb", "numpy", "pandas", "pyarrow")
"""Packages of which the lock has several versions, by Python."""
WORKSPACE_OR_SECRET = re.compile(
    r"[\w-]+\.(?:cloud\.databricks\.com|azuredatabricks\.net|gcp\.databricks\.com)|\bdapi[0-9a-f]{16,}|\badb-\d{8,}"
)


@pytest.fixture(params=TARGETS)
def bundle(request: pytest.FixtureRequest) -> Bundle:
    return load_bundle(request.param)


# Files


def test_every_file_of_the_folder_is_included_and_holds_one_resource_of_its_kind() -> None:
    files = [file for file in (ROOT / "resources").iterdir() if file.name.endswith((".yml", ".yaml"))]
    assert sorted(files) == included()
    for file in files:
        ((kind, resources),) = load_yaml(file)["resources"].items()
        assert file.name.split(".")[1] == kind.removesuffix("s")
        assert len(resources) == 1, file.name


def test_no_two_resources_or_scripts_have_the_same_key(bundle: Bundle) -> None:
    # `bundle run KEY` finds one of any kind: the command line refuses the bundle otherwise.
    keys = [key for kind in bundle.config["resources"].values() for key in kind] + list(bundle.config["scripts"])
    assert sorted(keys) == sorted(set(keys))


def parts_of_the_bundle() -> Iterator[ParameterSet]:
    """Each place that says something of a resource, as it is written: `bundle schema` takes each by itself."""
    main = load_yaml(ROOT / "databricks.yml")
    texts_of = {file.name: load_yaml(file) for file in included()} | {
        f"target {name}": target for name, target in main["targets"].items()
    }
    for place, content in texts_of.items():
        for kind, resources in content.get("resources", {}).items():
            for name, resource in resources.items():
                yield pytest.param(kind, resource, id=f"{place}: {name}")


@pytest.mark.parametrize(("kind", "resource"), list(parts_of_the_bundle()))
def test_each_file_and_target_says_all_that_a_resource_must_have(kind: str, resource: dict[str, Any]) -> None:
    assert MODELS[kind].from_dict(resource).as_dict() == without_empty(resource)


def test_all_references_resolve(bundle: Bundle) -> None:
    assert [text for text in texts(bundle.config) if "${" in text] == []


@pytest.mark.parametrize("left_out", [name for name in GIVEN if name not in ("mail_to", "alert_to")])
def test_variables_that_only_the_user_knows_have_no_default_in_prod(left_out: str) -> None:
    given = {name: value for name, value in GIVEN.items() if name != left_out}
    with pytest.raises(KeyError):
        load_bundle("prod", given)


@pytest.mark.parametrize("kind", MODELS)
def test_resources_have_no_field_that_databricks_does_not_know(bundle: Bundle, kind: str) -> None:
    for name, content in bundle.resources(kind).items():
        assert MODELS[kind].from_dict(content).as_dict() == without_empty(content), name


def without_empty(node: object) -> object:
    if isinstance(node, dict):
        return {key: without_empty(value) for key, value in node.items() if value not in ([], {})}
    return [without_empty(value) for value in node] if isinstance(node, list) else node


def test_no_kind_of_resource_is_left_unchecked(bundle: Bundle) -> None:
    assert set(bundle.config["resources"]) == set(MODELS)


def test_no_workspace_and_no_token_is_in_the_repo() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    files = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    found = {
        file.name: match[0]
        for file in files
        if (match := WORKSPACE_OR_SECRET.search(file.read_text(encoding="utf-8", errors="replace")))
    }
    assert found == {}


def test_files_that_resources_name_are_there(bundle: Bundle) -> None:
    for dashboard in bundle.resources("dashboards").values():
        assert (ROOT / "resources" / dashboard["file_path"]).is_file()


# Jobs and the wheel


def wheel_tasks(bundle: Bundle) -> list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    return [
        (job, task, task["python_wheel_task"]) for job in bundle.resources("jobs").values() for task in job["tasks"]
    ]


def test_the_wheel_is_taken_from_where_its_build_puts_it(bundle: Bundle) -> None:
    built = shlex.split(bundle.config["artifacts"]["wheel"]["build"])
    assert built[:2] == ["uv", "build"]
    assert built[-2:] == ["--out-dir", "resources/console/wheel"]
    for job, task, _ in wheel_tasks(bundle):
        of_serverless = [
            path
            for each in job.get("environments", [])
            if each["environment_key"] == task.get("environment_key")
            for path in each["spec"]["dependencies"]
        ]
        pinned = f"-r {bundle.config['workspace']['file_path']}/resources/console/runtime-requirements.txt"
        if of_serverless:
            assert of_serverless.pop() == pinned
        paths = [library["whl"] for library in task.get("libraries", []) if "whl" in library] + of_serverless
        assert [(ROOT / "resources" / path).resolve() for path in paths] == [
            ROOT / "resources" / "console" / "wheel" / "*.whl"
        ]


def test_the_app_installs_the_wheel_that_is_built_beside_it(bundle: Bundle) -> None:
    (app,) = bundle.resources("apps").values()
    folder = ROOT / "resources" / app["source_code_path"]
    lines = [line for line in (folder / "requirements.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert lines == ["-c constraints.txt", f"./wheel/pid_quota-{__version__}-py3-none-any.whl[databricks]"]
    assert locked_versions().items() >= versions_in(folder / "constraints.txt").items()


def test_only_the_console_and_the_notebooks_are_uploaded_beside_the_wheel(bundle: Bundle) -> None:
    assert bundle.config["sync"]["paths"] == ["resources/console", "resources/notebooks"]
    for path in bundle.config["sync"]["paths"]:
        for file in (ROOT / path).rglob("*"):
            assert file.is_dir() or file.suffix in (".txt", ".sql", ".whl")


def values(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse a command line with the real CLI, and return the values that it passes to the command."""
    given = {}
    command = load_command(arguments[0])
    for leaf in leaves(command):
        leaf.callback = lambda **found: given.update(found)
    command.main(list(arguments[1:]), standalone_mode=False)
    return given


def leaves(command: Any) -> list[Any]:
    """The commands of a command line; typer brings its own copy of click, and does not export its classes."""
    below = getattr(command, "commands", None)
    return [command] if below is None else [leaf for each in below.values() for leaf in leaves(each)]


def test_the_commands_take_the_parameters_of_every_task(bundle: Bundle) -> None:
    for job, task, wheel in wheel_tasks(bundle):
        given = values(wheel["parameters"])
        assert is_catalog(given["tables"]), (job["name"], task["task_key"])


def call_as_databricks(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> object:
    (point,) = metadata.distribution("pid-quota").entry_points.select(name="pid-quota")
    monkeypatch.setattr(sys, "argv", ["python", *arguments])
    return point.load()()


def test_a_task_that_went_well_ends_without_system_exit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_as_databricks(monkeypatch, ["stream", "--help"]) is None
    assert "--new-checkpoint" in capsys.readouterr().out


def test_a_task_that_failed_ends_with_an_exception(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        call_as_databricks(monkeypatch, ["stream", "--no-such-option"])
    assert "No such option" in capsys.readouterr().err


# The stream


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_runs_on_a_classic_cluster_of_fixed_size(bundle: Bundle, name: str) -> None:
    job = bundle.job(name)
    (cluster,) = [each["new_cluster"] for each in job["job_clusters"]]
    runtime, _, rest = cluster["spark_version"].partition(".x-")
    assert runtime in SPARK_OF_RUNTIME
    assert rest == "scala2.13"
    assert "autoscale" not in cluster
    assert isinstance(cluster["num_workers"], int)
    (task,) = [each for each in job["tasks"] if each["task_key"] == name]
    assert task["job_cluster_key"] == job["job_clusters"][0]["job_cluster_key"]


def names_in(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", file.read_text(encoding="utf-8"), re.MULTILINE))


def versions_in(file: Path) -> dict[str, str]:
    return {name: version for name, version in names_in(file).items() if name not in SEVERAL_VERSIONS}


def locked_versions() -> dict[str, str]:
    return versions_in(ROOT / "requirements" / "dev.txt")


def needed_by(name: str, beside: set[str]) -> set[str]:
    """Names of a distribution's own dependencies and of theirs, without those of `beside`."""
    found = set()
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        if requirement.name not in beside and (not requirement.marker or requirement.marker.evaluate({"extra": ""})):
            found |= {requirement.name} | needed_by(requirement.name, beside)
    return found


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_brings_pinned_what_it_needs_and_the_runtime_has_not(bundle: Bundle, name: str) -> None:
    (task,) = [task for task in bundle.job(name)["tasks"] if task["task_key"] == name]
    (file,) = [ROOT / "resources" / each["requirements"] for each in task["libraries"] if "requirements" in each]
    brought = names_in(file)
    beside = names_in(ROOT / "tests/bundle/spark_4_0/runtime.txt")

    assert brought.keys() == needed_by("pid-quota", set(beside))
    # The lock has several versions of DuckDB, by Python; the App has that of the runtime's Python.
    app = names_in(ROOT / "resources/console/constraints.txt")
    assert brought.items() <= (locked_versions() | {"duckdb": app["duckdb"]}).items()


def test_the_stream_is_always_on_and_alone(bundle: Bundle) -> None:
    job = bundle.job("stream")
    assert job["continuous"]["task_retry_mode"] == "ON_FAILURE"
    assert job["max_concurrent_runs"] == 1
    assert len(job["tasks"]) == 1
    assert not {"schedule", "trigger"} & job.keys()


def test_in_dev_jobs_start_by_hand() -> None:
    bundle = load_bundle("dev", {name: value for name, value in GIVEN.items() if name != "pause_status"})
    assert bundle.job("stream")["continuous"]["pause_status"] == "PAUSED"


@pytest.mark.parametrize("status", ["PAUSED", "UNPAUSED"])
def test_in_prod_nothing_starts_by_itself_unless_it_is_said_each_time(status: str) -> None:
    # A first deployment has neither secret nor views; a later one must not pause what runs by a default.
    bundle = load_bundle("prod", GIVEN | {"pause_status": status})
    assert bundle.job("stream")["continuous"]["pause_status"] == status
    assert bundle.job("maintenance")["schedule"]["pause_status"] == status
    assert {alert["schedule"]["pause_status"] for alert in bundle.resources("alerts").values()} == {status}
    assert "default" not in load_yaml(ROOT / "databricks.yml")["variables"]["pause_status"]


def test_the_backfill_ends_by_itself_and_starts_by_hand(bundle: Bundle) -> None:
    assert values(bundle.parameters("backfill", "backfill"))["trigger"] == "available-now"
    assert not {"schedule", "trigger", "continuous"} & bundle.job("backfill").keys()


def test_stream_and_backfill_share_neither_tables_nor_checkpoint(bundle: Bundle) -> None:
    stream, backfill = (values(bundle.parameters(name, name)) for name in STREAMS)
    assert stream["tables"] != backfill["tables"]
    assert stream["checkpoint"] != backfill["checkpoint"]


@pytest.mark.parametrize("name", STREAMS)
def test_a_checkpoint_lies_in_a_managed_volume_of_the_bundle(bundle: Bundle, name: str) -> None:
    volumes = {
        f"/Volumes/{volume['catalog_name']}/{volume['schema_name']}/{volume['name']}"
        for volume in bundle.resources("volumes").values()
        if volume["volume_type"] == "MANAGED"
    }
    folder, _, query = values(bundle.parameters(name, name))["checkpoint"].rpartition("/")
    assert folder in volumes
    assert query


def test_the_stream_can_begin_another_checkpoint_once() -> None:
    usual = values(load_bundle("prod").parameters("stream", "stream"))
    begun = load_bundle("prod", GIVEN | {"checkpoint": "stream-2", "new_checkpoint": "--new-checkpoint"})
    given = values(begun.parameters("stream", "stream"))
    assert not usual["new_checkpoint"]
    assert given["new_checkpoint"]
    assert given["checkpoint"] == usual["checkpoint"] + "-2"


def test_the_stream_enforces_if_a_variable_says_so() -> None:
    assert not values(load_bundle("prod").parameters("stream", "stream"))["enforce"]
    enforcing = load_bundle("prod", GIVEN | {"enforce": "--enforce"})
    assert values(enforcing.parameters("stream", "stream"))["enforce"]
    assert not values(enforcing.parameters("backfill", "backfill"))["enforce"]


@pytest.mark.parametrize("name", STREAMS)
def test_credentials_come_out_of_the_secret_scope_by_name(bundle: Bundle, name: str) -> None:
    (scope,) = bundle.resources("secret_scopes").values()
    given = values(bundle.parameters(name, name))
    assert str(given["kafka_config"]) == f"secret:{scope['name']}/kafka-client"


# Upkeep


def test_maintenance_keeps_the_stream_s_own_tables(bundle: Bundle) -> None:
    stream = values(bundle.parameters("stream", "stream"))["tables"]
    for task in ("tables", "maintain"):
        assert values(bundle.parameters("maintenance", task))["tables"] == stream
    assert "schedule" in bundle.job("maintenance")


# Targets


def test_dev_is_the_default_and_a_copy_of_its_own() -> None:
    targets = load_yaml(ROOT / "databricks.yml")["targets"]
    assert [name for name, target in targets.items() if target.get("default")] == ["dev"]
    dev, prod = (load_bundle(name) for name in TARGETS)
    assert dev.config["mode"] == "development"
    for kind, name in (("schemas", "name"), ("secret_scopes", "name")):
        ours = {each[name] for each in dev.resources(kind).values()}
        assert not ours & {each[name] for each in prod.resources(kind).values()}
    assert "run_as" not in dev.config


def test_prod_runs_as_a_service_principal_that_manages_it() -> None:
    config = load_bundle("prod").config
    principal = GIVEN["service_principal"]
    assert config["mode"] == "production"
    assert config["run_as"] == {"service_principal_name": principal}
    assert config["workspace"]["root_path"].startswith(f"/Workspace/Users/{principal}/")
    # A level for all resources would hold for the secret scope too: CAN_VIEW there is READ.
    assert config["permissions"] == [{"service_principal_name": principal, "level": "CAN_MANAGE"}]


def test_prod_does_not_destroy_what_nothing_brings_back() -> None:
    bundle = load_bundle("prod")
    for kind, name in (("schemas", "tables"), ("volumes", "checkpoints"), ("secret_scopes", "kafka")):
        assert bundle.resources(kind)[name]["lifecycle"] == {"prevent_destroy": True}


def test_the_console_reads_the_tables_and_nothing_else(bundle: Bundle) -> None:
    (console,) = REMOTE.values()
    (app,) = bundle.resources("apps").values()
    for schema in bundle.resources("schemas").values():
        assert {"principal": console, "privileges": ["USE_SCHEMA", "SELECT"]} in schema["grants"]
    assert [each["sql_warehouse"]["permission"] for each in app["resources"]] == ["CAN_USE"]
    environment = {each["name"]: each.get("value", each.get("value_from")) for each in app["config"]["env"]}
    assert environment["PID_QUOTA_TABLES"] == values(bundle.parameters("stream", "stream"))["tables"]
    assert environment["DATABRICKS_WAREHOUSE_ID"] == app["resources"][0]["name"]


@pytest.mark.parametrize("name", ["my-catalog", "main"])
def test_names_of_catalogs_are_quoted_in_all_sql(name: str) -> None:
    bundle = load_bundle("prod", GIVEN | {"catalog": name})
    statements = [alert["query_text"] for alert in bundle.resources("alerts").values()]
    for space in bundle.resources("genie_spaces").values():
        examples = space["serialized_space"]["instructions"]["example_question_sqls"]
        statements += ["".join(example["sql"]) for example in examples]
    for statement in statements:
        assert f"`{name}`.`pid_quota`." in statement
        assert set(re.findall(r"(?:FROM|JOIN) (\S+)[.]", statement)) == {f"`{name}`.`pid_quota`"}


def test_a_space_has_ids_and_an_order_that_databricks_takes(bundle: Bundle) -> None:
    for space in bundle.resources("genie_spaces").values():
        content = space["serialized_space"]
        questions = content["config"]["sample_questions"]
        examples = content["instructions"]["example_question_sqls"]
        assert [each["question"] for each in questions] == [each["question"] for each in examples]
        assert len(questions) == 10
        ids = [each["id"] for each in [*questions, *content["instructions"]["text_instructions"], *examples]]
        assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
        assert ids == sorted(set(ids))
        tables = [each["identifier"] for each in content["data_sources"]["tables"]]
        assert tables == sorted(tables)
        assert {name.rpartition(".")[2] for name in tables} <= {*TABLES, *views()}


def test_readers_in_prod_read_tables_and_dashboard_and_nothing_else() -> None:
    bundle = load_bundle("prod")
    for schema in bundle.resources("schemas").values():
        assert {"principal": GIVEN["readers"], "privileges": ["USE_SCHEMA", "SELECT"]} in schema["grants"]
    for alert in bundle.resources("alerts").values():
        assert alert["permissions"] == [{"group_name": GIVEN["readers"], "level": "CAN_READ"}]
    for space in bundle.resources("genie_spaces").values():
        assert space["permissions"] == [{"group_name": GIVEN["readers"], "level": "CAN_RUN"}]
    for dashboard in bundle.resources("dashboards").values():
        assert dashboard["permissions"] == [{"group_name": GIVEN["readers"], "level": "CAN_READ"}]
        assert dashboard["embed_credentials"] is False
    for scope in bundle.resources("secret_scopes").values():
        assert "permissions" not in scope


@pytest.fixture
def command_line() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The Databricks CLI in a workspace; `BUNDLE_VAR_service_principal` is the logged-in user."""
    if not (shutil.which("databricks") and os.environ.get("DATABRICKS_HOST")):
        pytest.skip("`databricks bundle` needs the command line and a workspace")

    def run(target: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        given = {f"BUNDLE_VAR_{name}": value for name, value in GIVEN.items() if isinstance(value, str)}
        command = ["databricks", "bundle", "validate", *arguments, "--target", target]
        return subprocess.run(command, cwd=ROOT, env=given | os.environ, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("target", TARGETS)
def test_the_command_line_finds_nothing_to_say_of_the_bundle(
    command_line: Callable[..., subprocess.CompletedProcess[str]], target: str
) -> None:
    result = command_line(target, "--strict")
    assert result.returncode == 0, result.stderr
    assert not re.search("Error|Warning|Recommendation", result.stderr + result.stdout)

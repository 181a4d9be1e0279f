"""Reads the Databricks bundle as its command line does: includes, targets, variables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yaml import MappingNode, SafeLoader
from yaml.constructor import ConstructorError

ROOT = Path(__file__).parents[2]
TARGETS = ("dev", "prod")

GIVEN = {
    "catalog": "main",
    "kafka_bootstrap_servers": "kafka-1:9093,kafka-2:9093",
    "node_type_id": "m6id.xlarge",
    "warehouse_id": "0123456789abcdef",
    "pause_status": "UNPAUSED",
    "service_principal": "00000000-0000-0000-0000-000000000000",
    "readers": "kafka-operators",
    "mail_to": ["operators@example.org"],
    "alert_to": [{"user_email": "operators@example.org"}],
}
"""What a user gives in `BUNDLE_VAR_...`."""

WORKSPACE = {
    "current_user": {
        "id": "1234567890123456789",
        "short_name": "someone_with_so_long_a_name",
        "domain_friendly_name": "someone-with-so-long-a-name",
        "userName": "someone.with.so.long-a-name@example.org",
    }
}
REMOTE = {"resources.apps.console.service_principal_client_id": "11111111-1111-1111-1111-111111111111"}
"""What only the workspace can say, once the resource is there."""

SPARK_OF_RUNTIME = {"17.3": "4.0"}
"""Spark's version in each LTS runtime, from their release notes."""

_REFERENCE = re.compile(r"\$\{([^}]+)\}")


class _Loader(SafeLoader):
    """Refuses a key that is there twice, of which YAML would silently take the last."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        repeated = {key for key in keys if keys.count(key) > 1}
        if repeated:
            raise ConstructorError(None, None, f"repeated: {repeated}", node.start_mark)
        return super().construct_mapping(node, deep=deep)


def load_yaml(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = _Loader(file.read_text(encoding="utf-8")).get_single_data()
    return content


def included() -> list[Path]:
    patterns = load_yaml(ROOT / "databricks.yml")["include"]
    return sorted(file for pattern in patterns for file in ROOT.glob(pattern))


def merge(one: Any, other: Any) -> Any:
    """As the command line merges: mappings by key, lists one after the other, anything else by the later one."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: merge(one[key], value) if key in one else value for key, value in other.items()}}
    return one + other if isinstance(one, list) and isinstance(other, list) else other


@dataclass(frozen=True)
class Bundle:
    """The bundle of a target, all references resolved."""

    config: dict[str, Any]

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.config["resources"][kind]
        return found

    def job(self, name: str) -> dict[str, Any]:
        return self.resources("jobs")[name]

    def parameters(self, job: str, task: str) -> list[str]:
        (found,) = [each for each in self.job(job)["tasks"] if each["task_key"] == task]
        parameters: list[str] = found["python_wheel_task"]["parameters"]
        return parameters


def load_bundle(target: str, given: dict[str, Any] = GIVEN) -> Bundle:
    config = load_yaml(ROOT / "databricks.yml")
    for file in included():
        config = merge(config, load_yaml(file))
    chosen = config.pop("targets")[target]
    values = chosen.pop("variables", {})
    config = merge(config, chosen)
    config["variables"] = {
        name: _value(name, spec, values, given) for name, spec in config.get("variables", {}).items()
    }
    config["bundle"]["target"] = target
    config["workspace"] = WORKSPACE | config.get("workspace", {})
    config["workspace"].setdefault("root_path", "/Workspace/Users/someone/.bundle/pid-quota/dev")
    config["workspace"]["file_path"] = "${workspace.root_path}/files"
    if config["mode"] == "development":
        _prefix(config["resources"])
    return Bundle(resolved(config, config))


def _value(name: str, spec: dict[str, Any], of_target: dict[str, Any], given: dict[str, Any]) -> Any:
    # What the user gives goes before what the target says, and that before the default.
    for values in (given, of_target):
        if name in values:
            return values[name]
    return spec["default"]


def _prefix(resources: dict[str, Any]) -> None:
    """Rename what the mode `development` renames."""
    user = WORKSPACE["current_user"]["short_name"]
    titles = {"jobs": "name", "dashboards": "display_name", "alerts": "display_name", "genie_spaces": "title"}
    for kind, name in titles.items():
        for each in resources[kind].values():
            each[name] = f"[dev {user}] {each[name]}"
    for schema in resources["schemas"].values():
        schema["name"] = f"dev_{user}_{schema['name']}"


def resolved(node: Any, root: dict[str, Any]) -> Any:
    """Return a part of a configuration with its references replaced by what they name."""
    if isinstance(node, dict):
        content = {key: resolved(value, root) for key, value in node.items()}
        # The command line leaves out what is empty.
        return {key: value for key, value in content.items() if value != "" or node[key] == ""}
    if isinstance(node, list):
        return [resolved(value, root) for value in node]
    if not isinstance(node, str):
        return node
    whole = _REFERENCE.fullmatch(node)
    if whole:
        return _lookup(whole[1], root)
    return _REFERENCE.sub(lambda found: str(_lookup(found[1], root)), node)


def _lookup(reference: str, root: dict[str, Any]) -> Any:
    if reference in REMOTE:
        return REMOTE[reference]
    first, *rest = reference.split(".")
    node: Any = root["variables" if first == "var" else first]
    for key in rest:
        if key not in node:
            msg = f"${{{reference}}} names nothing: {key} is not there"
            raise KeyError(msg)
        node = node[key]
    return resolved(node, root)


def texts(node: Any) -> Iterator[str]:
    """Yield all texts of a configuration, keys and values."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from texts(key)
            yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)
    elif isinstance(node, str):
        yield node

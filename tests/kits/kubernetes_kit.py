"""Validates manifests against published schemas, cut to the fields in use.

To renew `kubernetes_schemas.json` after a change of the manifests, with the CRDs of Strimzi, and the folder
`kubernetes-json-schema/vX.Y.Z-local` of the package `kubernetes-validate`:

    python -m tests.kits.kubernetes_kit FOLDER CRD.yaml...

A field that a schema does not have ends it: the check of the manifests is against the schemas as published.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
MANIFESTS = sorted((ROOT / "docs" / "kubernetes").glob("*.yaml"))
SCHEMAS = Path(__file__).parents[1] / "bundle" / "kubernetes_schemas.json"
NOTICE = (
    "Cut from the CRDs of Strimzi (github.com/strimzi/strimzi-kafka-operator), and from Kubernetes' OpenAPI "
    "(github.com/kubernetes/kubernetes), to the fields that docs/kubernetes uses; descriptions left out. Their "
    "authors' work, under the Apache License 2.0."
)
_ANYTHING = "x-kubernetes-preserve-unknown-fields"
_KEPT = ("type", "enum", "required", "pattern", "minimum", "maximum", "x-kubernetes-int-or-string", _ANYTHING)
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object of the manifests, and the name of its kind."""
    for file in MANIFESTS:
        for content in map(yaml.safe_load, file.read_text(encoding="utf-8").split("\n---\n")):
            if "apiVersion" in content:
                yield f"{content['apiVersion']}/{content['kind']}", content


def errors_in(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """What a schema finds wrong with a value, each with its path. Fields that it does not have are wrong."""
    if schema.get("x-kubernetes-int-or-string"):
        return [] if isinstance(value, int | str) else [f"{path}: neither a number nor text"]
    types = schema.get("type", "object")
    names = [types] if isinstance(types, str) else types
    if not any(isinstance(value, _TYPES[name]) and (name == "boolean") == isinstance(value, bool) for name in names):
        return [f"{path}: not of type {types}"]
    errors = [f"{path}: {value!r} is not one of {schema['enum']}"] if value not in schema.get("enum", [value]) else []
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        errors.append(f"{path}: {value!r} does not match {schema['pattern']}")
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        errors.append(f"{path}: {value} is out of range")
    if isinstance(value, list):
        return errors + [
            error
            for number, each in enumerate(value)
            for error in errors_in(each, schema["items"], f"{path}[{number}]")
        ]
    if isinstance(value, dict) and _ANYTHING not in schema:
        errors += [f"{path}.{name}: missing" for name in schema.get("required", []) if name not in value]
        for name, each in value.items():
            known = _field(schema, name)
            errors += [f"{path}.{name}: unknown"] if known is None else errors_in(each, known, f"{path}.{name}")
    return errors


def _field(schema: dict[str, Any], name: str) -> dict[str, Any] | None:
    known: dict[str, Any] | None = schema.get("properties", {}).get(name)
    if known is None and isinstance(schema.get("additionalProperties"), dict):
        known = schema["additionalProperties"]
    return known


def load_schemas() -> dict[str, Any]:
    return dict(json.loads(SCHEMAS.read_text(encoding="utf-8"))["schemas"])


class _Source:
    def __init__(self, folder: Path, crds: list[Path]) -> None:
        self._definitions = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
        self._crds = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in crds]

    def of(self, kind: str) -> dict[str, Any]:
        """The schema of a kind; of metadata, only Kubernetes knows."""
        group, _, rest = kind.rpartition("/")[0].rpartition("/")
        for crd in self._crds:
            if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (group, kind.rpartition("/")[2]):
                (version,) = [each for each in crd["spec"]["versions"] if each["name"] == rest]
                schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
                meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
                return schema | {"properties": schema["properties"] | {"metadata": self._definitions[meta]}}
        for schema in self._definitions.values():
            for each in schema.get("x-kubernetes-group-version-kind", []):
                if (each["group"], each["version"], each["kind"]) == (group, rest, kind.rpartition("/")[2]):
                    return dict(schema)
        msg = f"no schema of {kind}"
        raise KeyError(msg)

    def cut(self, schema: dict[str, Any], values: list[Any], path: str) -> dict[str, Any]:
        """A schema without what the values do not use."""
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        if "oneOf" in schema and "type" not in schema:
            # Numbers or text: quantities, ports.
            return {"x-kubernetes-int-or-string": True}
        found: dict[str, Any] = {name: schema[name] for name in _KEPT if name in schema}
        lists = [each for value in values if isinstance(value, list) for each in value]
        if "items" in schema:
            found["items"] = self.cut(schema["items"], lists, f"{path}[]")
        objects = [value for value in values if isinstance(value, dict)]
        names = sorted({name for value in objects for name in value})
        inner = {name: [value[name] for value in objects if name in value] for name in names}
        if isinstance(schema.get("additionalProperties"), dict):
            of_all = [value for each in inner.values() for value in each]
            found["additionalProperties"] = self.cut(schema["additionalProperties"], of_all, f"{path}.*")
        elif names and _ANYTHING not in schema:
            for name in names:
                assert name in schema["properties"], f"{path}.{name} is not in the published schema"
            found["properties"] = {
                name: self.cut(schema["properties"][name], each, f"{path}.{name}") for name, each in inner.items()
            }
        return found


def _renew(folder: Path, crds: list[Path]) -> None:
    source, by_kind = _Source(folder, crds), dict[str, list[Any]]()
    for kind, content in objects():
        by_kind.setdefault(kind, []).append(content)
    schemas = {kind: source.cut(source.of(kind), found, kind) for kind, found in sorted(by_kind.items())}
    for kind, found in by_kind.items():
        for each in found:
            errors = errors_in(each, schemas[kind], kind)
            assert not errors, errors
    versions = {"kubernetes": folder.name, "strimzi": "1.2.0"}
    lines = ",\n".join(f"{json.dumps(kind)}: {json.dumps(schema)}" for kind, schema in schemas.items())
    head = f'{{"notice": {json.dumps(NOTICE)},\n"versions": {json.dumps(versions)},\n"schemas": {{\n'
    SCHEMAS.write_text(f"{head}{lines}\n}}}}\n", encoding="utf-8")


if __name__ == "__main__":
    _renew(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])

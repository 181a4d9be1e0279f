"""What this project uses of PyYAML, which ships no types of its own."""

from typing import Any

class YAMLError(Exception): ...

class Mark:
    line: int

class Node:
    start_mark: Mark
    end_mark: Mark

class ScalarNode(Node):
    value: str

class MappingNode(Node):
    value: list[tuple[Node, Node]]

class SafeLoader:
    name: str
    def __init__(self, stream: str) -> None: ...
    def construct_object(self, node: Node, deep: bool = ...) -> Any: ...
    def construct_mapping(self, node: MappingNode, deep: bool = ...) -> dict[Any, Any]: ...
    def get_single_data(self) -> Any: ...
    def check_data(self) -> bool: ...
    def get_data(self) -> Any: ...

def safe_load(stream: str) -> Any: ...
def safe_dump(data: object, *, allow_unicode: bool = ..., sort_keys: bool = ..., width: int = ...) -> str: ...

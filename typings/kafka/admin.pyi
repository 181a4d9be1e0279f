from typing import Any

class KafkaAdminClient:
    _manager: Any
    _closed: bool
    def __init__(self, **configs: Any) -> None: ...
    def close(self) -> None: ...

class AlterConfigOp:
    SET: AlterConfigOp

class ConfigResourceType:
    BROKER: ConfigResourceType
    BROKER_LOGGER: ConfigResourceType

class ConfigResource:
    def __init__(self, resource_type: ConfigResourceType, name: str, configs: object = None) -> None: ...

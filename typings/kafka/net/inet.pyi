from typing import Any

class KafkaNetSocket:
    SCHEMES: tuple[str, ...]
    def socket(self, *kind: int) -> Any: ...

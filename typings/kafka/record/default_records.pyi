class DefaultRecordBatchBuilder:
    def __init__(
        self,
        magic: int,
        compression_type: int,
        is_transactional: bool,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        batch_size: int,
    ) -> None: ...
    def append(
        self,
        offset: int,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
    ) -> object: ...
    def build(self) -> bytearray: ...

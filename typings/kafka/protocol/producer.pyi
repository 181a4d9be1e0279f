from typing import Any

class ProduceRequest:
    class TopicProduceData:
        class PartitionProduceData:
            def __init__(self, *, index: int, records: bytes) -> None: ...

        def __init__(
            self, *, name: str, partition_data: list[ProduceRequest.TopicProduceData.PartitionProduceData]
        ) -> None: ...

    def __init__(
        self,
        *,
        transactional_id: str | None,
        acks: int,
        timeout_ms: int,
        topic_data: list[ProduceRequest.TopicProduceData],
        min_version: int = ...,
        max_version: int,
    ) -> None: ...

class EndTxnRequest:
    def __init__(
        self,
        *,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        min_version: int,
    ) -> None: ...

class InitProducerIdRequest:
    def __init__(
        self, *, transactional_id: str | None, transaction_timeout_ms: int, producer_id: int, producer_epoch: int
    ) -> None: ...

class InitProducerIdResponse:
    @classmethod
    def decode(cls, data: bytes, *, version: int, header: bool) -> Any: ...

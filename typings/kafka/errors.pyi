class KafkaError(Exception):
    retriable: bool

class BrokerResponseError(KafkaError):
    errno: int | None

class NodeNotReadyError(KafkaError): ...

def for_code(error_code: int) -> type[KafkaError]: ...

class ClusterAuthorizationFailedError(BrokerResponseError): ...

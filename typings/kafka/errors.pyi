class KafkaError(Exception):
    retriable: bool

class BrokerResponseError(KafkaError):
    errno: int | None

def for_code(error_code: int) -> type[KafkaError]: ...

class ClusterAuthorizationFailedError(BrokerResponseError): ...

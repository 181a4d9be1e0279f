"""What tests share: brokers, streams, clients and stand-ins."""

"""A real Kafka on this machine, for the demo and the tests."""

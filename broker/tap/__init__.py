"""The tap: follows a broker's log, or asks the brokers, and writes produce events."""

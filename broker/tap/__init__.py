"""The tap: follows the lines of a class in a broker, or asks the brokers, and writes produce events."""

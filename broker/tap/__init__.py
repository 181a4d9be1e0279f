"""The tap: follows the lines of the class in brokers, or polls the brokers, and writes produce events."""

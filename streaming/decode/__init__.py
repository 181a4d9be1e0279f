"""Turns Kafka records into one row per principal and task, before the shuffle."""

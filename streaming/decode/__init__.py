"""Turns Kafka records into rows of events by principal, before the shuffle."""

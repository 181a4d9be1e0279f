"""Turns Kafka records into rows of events per principal, before the shuffle."""

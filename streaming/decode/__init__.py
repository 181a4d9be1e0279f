"""From Kafka records to one row per principal and task, before the shuffle."""

"""From Kafka records to one row per principal, before the shuffle."""

"""The Spark side: turns Kafka records into rows of Delta tables. Start reading at `streaming.pipeline`."""

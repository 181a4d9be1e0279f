"""The Spark side: from Kafka records to rows in Delta tables. Start reading at `streaming.pipeline`."""

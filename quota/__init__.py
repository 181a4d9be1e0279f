"""The rules of KIP-936 as plain Python, without Spark, Kafka, files or clock."""

"""The rules of KIP-936 as plain Python. This package uses no Spark, Kafka, files or clock."""

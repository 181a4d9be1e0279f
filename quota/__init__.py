"""The rules of KIP-936 as plain Python: no Spark, Kafka, files or clock in this package."""

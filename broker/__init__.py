"""The Kafka side: what a stock broker's log tells, the tap that reads it, and a local broker to try it on."""

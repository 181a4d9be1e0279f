package pidquota;

/** Kafka's loggers whose messages tell what a request did. */
enum Source {
    /** Logs at TRACE, on the appending thread, a message for each batch of a producer with an id. */
    BATCHES("org.apache.kafka.storage.internals.log.ProducerStateManager"),
    /** Logs at TRACE a message when a request arrives, and one when INIT_PRODUCER_ID is answered. */
    REQUESTS("kafka.server.KafkaApis"),
    /** Logs at INFO a message when a transactional id gets its producer id, or is refused one. */
    COORDINATOR("kafka.coordinator.transaction.TransactionCoordinator");

    final String logger;

    Source(String logger) {
        this.logger = logger;
    }
}

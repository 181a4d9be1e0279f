package pidquota;

/** The loggers of Kafka whose messages tell what a request did. */
enum Source {
    /** On the appending thread, logs a TRACE message for each batch of a producer with an id. */
    BATCHES("org.apache.kafka.storage.internals.log.ProducerStateManager"),
    /** Logs a TRACE message when a request arrives, and another when INIT_PRODUCER_ID is answered. */
    REQUESTS("kafka.server.KafkaApis"),
    /** Logs an INFO message when a transactional id gets a producer id, or an error instead. */
    COORDINATOR("kafka.coordinator.transaction.TransactionCoordinator");

    final String logger;

    Source(String logger) {
        this.logger = logger;
    }
}

package pidquota;

/** The loggers of Kafka whose messages tell what a request did. */
enum Source {
    /** TRACE: a message per batch that a producer with an id appended, on the appending thread. */
    BATCHES("org.apache.kafka.storage.internals.log.ProducerStateManager"),
    /** TRACE: a message when a request arrives, and one when INIT_PRODUCER_ID is answered. */
    REQUESTS("kafka.server.KafkaApis"),
    /** INFO: a message when a transactional id gets its producer id. */
    COORDINATOR("kafka.coordinator.transaction.TransactionCoordinator");

    final String logger;

    Source(String logger) {
        this.logger = logger;
    }
}

package pidquota;

import org.slf4j.LoggerFactory;

/**
 * Passes the messages of each {@link Source} to a {@link LogListener}, and keeps messages of the plugin's own Kafka clients
 * out of the broker's log.
 */
interface LogHook {
    /** Install the listener unless it is installed. */
    void install();

    void uninstall();

    /** Whether the thread is the plugin's, or one of its Kafka clients'. Their problems are logged by {@link ProblemLog}. */
    static boolean isOwn(String thread, String logger) {
        return thread.contains(KafkaWriter.CLIENT_ID) && !logger.startsWith("pidquota.");
    }

    /** Return the hook for this broker's logging library. */
    static LogHook of(LogListener listener) {
        String factory = LoggerFactory.getILoggerFactory().getClass().getName();
        if (factory.startsWith("org.apache.logging.slf4j.")) {
            return new Log4j2Hook(new NotInlined(listener));
        }
        if (factory.startsWith("org.slf4j.") && (factory.endsWith("Reload4jLoggerFactory") || factory.endsWith("Log4jLoggerFactory"))) {
            return new Log4j1Hook(new NotInlined(listener));
        }
        throw new IllegalStateException("its logging library (" + factory + ") is neither log4j 2 nor reload4j");
    }
}

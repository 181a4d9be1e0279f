package pidquota;

import org.slf4j.LoggerFactory;

/**
 * Puts a {@link LogListener} before the loggers of the {@link Source}s. No appender, file or level of the broker's log
 * settings changes.
 */
interface LogHook {
    /** Put the listener in place; nothing happens if it is. */
    void install();

    /** Take the listener away. */
    void uninstall();

    /** The hook for the logging library that this broker uses. */
    static LogHook of(LogListener listener) {
        String factory = LoggerFactory.getILoggerFactory().getClass().getName();
        if (factory.startsWith("org.apache.logging.slf4j.")) {
            return new Log4j2Hook(listener);
        }
        if (factory.startsWith("org.slf4j.") && (factory.endsWith("Reload4jLoggerFactory") || factory.endsWith("Log4jLoggerFactory"))) {
            return new Log4j1Hook(listener);
        }
        throw new IllegalStateException("its logging library (" + factory + ") is neither log4j 2 nor reload4j");
    }
}

package pidquota;

import org.slf4j.LoggerFactory;

/**
 * Lets a {@link LogListener} receive the messages of each {@link Source}. It changes no appender, file or level of the
 * broker's log settings.
 */
interface LogHook {
    /** Install the listener unless it is installed. */
    void install();

    /** Remove the listener. */
    void uninstall();

    /** Return the hook for the logging library that this broker uses. */
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

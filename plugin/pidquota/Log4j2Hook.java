package pidquota;

import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Marker;
import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.AbstractConfiguration;
import org.apache.logging.log4j.core.filter.AbstractFilter;
import org.apache.logging.log4j.core.filter.CompositeFilter;
import org.apache.logging.log4j.message.Message;

/**
 * The hook for log4j 2 (Kafka 4): a filter of the whole context. log4j calls the filter before anything else, on the
 * logging thread, even with asynchronous loggers. The filter enables wanted messages and passes them to the listener.
 */
final class Log4j2Hook implements LogHook {
    private final Ears filter;

    Log4j2Hook(LogListener listener) {
        filter = new Ears(listener);
    }

    @Override
    public synchronized void install() {
        AbstractConfiguration configuration = configuration();
        if (isFirst(configuration.getFilter())) {
            return;
        }
        uninstall();
        Filter others = configuration.getFilter();
        if (others != null) {
            configuration.removeFilter(others);
        }
        // Other filters may deny TRACE, so ours comes first.
        configuration.addFilter(filter);
        if (others != null) {
            configuration.addFilter(others);
        }
    }

    @Override
    public synchronized void uninstall() {
        configuration().removeFilter(filter);
    }

    private boolean isFirst(Filter installed) {
        if (installed instanceof CompositeFilter) {
            Filter[] all = ((CompositeFilter) installed).getFiltersArray();
            return all.length > 0 && all[0] == filter;
        }
        return installed == filter;
    }

    private static AbstractConfiguration configuration() {
        LoggerContext context = (LoggerContext) LogManager.getContext(Log4j2Hook.class.getClassLoader(), false);
        return (AbstractConfiguration) context.getConfiguration();
    }

    private static final class Ears extends AbstractFilter {
        private final LogListener listener;

        Ears(LogListener listener) {
            this.listener = listener;
        }

        /** {@code isTraceEnabled()} calls this method with null as the message. */
        @Override
        public Result filter(Logger logger, Level level, Marker marker, Object message, Throwable thrown) {
            return thrown instanceof Held ? Result.DENY : ask(logger, level, message);
        }

        @Override
        public Result filter(Logger logger, Level level, Marker marker, Message message, Throwable thrown) {
            return thrown instanceof Held ? Result.DENY
                : ask(logger, level, message == null ? null : message.getFormattedMessage());
        }

        @Override
        public Result filter(Logger logger, Level level, Marker marker, String message, Object... parameters) {
            return ask(logger, level, message);
        }

        @Override
        public Result filter(Logger logger, Level level, Marker marker, String message, Object parameter) {
            return ask(logger, level, message);
        }

        @Override
        public Result filter(Logger logger, Level level, Marker marker, String message, Object first, Object second) {
            return ask(logger, level, message);
        }

        /** log4j 2.25 and later call this method. Earlier versions do not declare it. */
        public Result filter(Logger logger, Level level, Marker marker, String message) {
            return ask(logger, level, message);
        }

        private Result ask(Logger logger, Level level, Object message) {
            // Kafka asks for TRACE and DEBUG many times per request, so the most frequent answers come first.
            if (level == Level.DEBUG) {
                return Result.NEUTRAL;
            }
            Source source = source(logger, level);
            if (source == null) {
                return message != null && level.isMoreSpecificThan(Level.INFO)
                    && LogHook.isOwn(Thread.currentThread().getName(), logger.getName()) ? Result.DENY : Result.NEUTRAL;
            }
            if (message == null) {
                return listener.wants(source) ? Result.ACCEPT : Result.NEUTRAL;
            }
            return listener.logged(source, message.toString()) ? Result.DENY : Result.NEUTRAL;
        }

        private static Source source(Logger logger, Level level) {
            if (level == Level.TRACE) {
                String name = logger.getName();
                return name.equals(Source.BATCHES.logger) ? Source.BATCHES
                    : name.equals(Source.REQUESTS.logger) ? Source.REQUESTS : null;
            }
            return level == Level.INFO && logger.getName().equals(Source.COORDINATOR.logger) ? Source.COORDINATOR : null;
        }
    }
}

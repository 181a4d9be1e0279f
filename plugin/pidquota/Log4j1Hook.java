package pidquota;

import java.lang.reflect.Field;
import java.util.EnumMap;
import java.util.Enumeration;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Category;
import org.apache.log4j.Level;
import org.apache.log4j.LogManager;
import org.apache.log4j.Logger;
import org.apache.log4j.Priority;
import org.apache.log4j.spi.Filter;
import org.apache.log4j.spi.LoggingEvent;
import org.slf4j.LoggerFactory;

/**
 * The hook for reload4j (Kafka 3). slf4j has one shared adapter for each logger name. The hook puts a logger into each
 * source's adapter. This logger passes messages to the listener, then to the original logger.
 */
final class Log4j1Hook implements LogHook {
    private final LogListener listener;
    private final Map<Source, Logger> replaced = new EnumMap<>(Source.class);

    Log4j1Hook(LogListener listener) {
        this.listener = listener;
    }

    @Override
    public synchronized void install() {
        for (Source source : Source.values()) {
            Logger now = get(source);
            if (!(now instanceof Heard)) {
                replaced.put(source, now);
                set(source, new Heard(source, now, listener));
            }
        }
        for (AppenderSkeleton each : appenders()) {
            if (Quiet.of(each) == null) {
                each.addFilter(new Quiet());
            }
        }
    }

    @Override
    public synchronized void uninstall() {
        replaced.forEach(Log4j1Hook::set);
        replaced.clear();
        appenders().forEach(Quiet::removeFrom);
    }

    private static Set<AppenderSkeleton> appenders() {
        Set<AppenderSkeleton> found = new HashSet<>();
        collect(LogManager.getRootLogger(), found);
        for (Enumeration<?> loggers = LogManager.getCurrentLoggers(); loggers.hasMoreElements();) {
            collect((Category) loggers.nextElement(), found);
        }
        return found;
    }

    private static void collect(Category logger, Set<AppenderSkeleton> found) {
        for (Enumeration<?> appenders = logger.getAllAppenders(); appenders.hasMoreElements();) {
            Object appender = appenders.nextElement();
            if (appender instanceof AppenderSkeleton) {
                found.add((AppenderSkeleton) appender);
            }
        }
    }

    private static Logger get(Source source) {
        try {
            Object adapter = LoggerFactory.getLogger(source.logger);
            return (Logger) field(adapter).get(adapter);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void set(Source source, Logger logger) {
        try {
            Object adapter = LoggerFactory.getLogger(source.logger);
            field(adapter).set(adapter, logger);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Field field(Object adapter) {
        for (Field field : adapter.getClass().getDeclaredFields()) {
            if (field.getType() == Logger.class) {
                field.setAccessible(true);
                return field;
            }
        }
        throw new IllegalStateException("its logging library (" + adapter.getClass().getName() + ") has no log4j logger");
    }

    /** A logger that overrides the methods that slf4j's adapter calls. */
    private static final class Heard extends Logger {
        private final Source source;
        private final Logger next;
        private final LogListener listener;

        Heard(Source source, Logger next, LogListener listener) {
            super(source.logger);
            this.source = source;
            this.next = next;
            this.listener = listener;
        }

        private boolean hears(Priority level) {
            return level == (source == Source.COORDINATOR ? Level.INFO : Level.TRACE);
        }

        @Override
        public boolean isTraceEnabled() {
            return hears(Level.TRACE) && listener.wants(source) || next.isTraceEnabled();
        }

        @Override
        public boolean isDebugEnabled() {
            return next.isDebugEnabled();
        }

        @Override
        public boolean isInfoEnabled() {
            return hears(Level.INFO) && listener.wants(source) || next.isInfoEnabled();
        }

        @Override
        public boolean isEnabledFor(Priority level) {
            return next.isEnabledFor(level);
        }

        private boolean hides(Priority level, Object message, Throwable thrown) {
            return thrown instanceof Held || hears(level) && listener.logged(source, String.valueOf(message));
        }

        @Override
        public void log(String callerClass, Priority level, Object message, Throwable thrown) {
            if (!hides(level, message, thrown)) {
                next.log(callerClass, level, message, thrown);
            }
        }
    }

    /** Keeps messages of the plugin's own Kafka clients out of an appender. */
    private static final class Quiet extends Filter {
        static Filter of(AppenderSkeleton appender) {
            Filter each = appender.getFirstFilter();
            while (each != null && !(each instanceof Quiet)) {
                each = each.getNext();
            }
            return each;
        }

        static void removeFrom(AppenderSkeleton appender) {
            Filter each = appender.getFirstFilter();
            appender.clearFilters();
            while (each != null) {
                Filter next = each.getNext();
                each.setNext(null);
                if (!(each instanceof Quiet)) {
                    appender.addFilter(each);
                }
                each = next;
            }
        }

        @Override
        public int decide(LoggingEvent event) {
            return LogHook.isOwn(event.getThreadName(), event.getLoggerName()) ? DENY : NEUTRAL;
        }
    }
}

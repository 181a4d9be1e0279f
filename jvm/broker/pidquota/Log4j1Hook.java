package pidquota;

import java.lang.reflect.Field;
import java.util.EnumMap;
import java.util.Map;

import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.Priority;
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
            if (!(now instanceof Ears)) {
                replaced.put(source, now);
                set(source, new Ears(source, now, listener));
            }
        }
    }

    @Override
    public synchronized void uninstall() {
        replaced.forEach(Log4j1Hook::set);
        replaced.clear();
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
    private static final class Ears extends Logger {
        private final Source source;
        private final Logger next;
        private final LogListener listener;

        Ears(Source source, Logger next, LogListener listener) {
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

        private boolean hides(Priority level, Object message) {
            return hears(level) ? listener.logged(source, String.valueOf(message))
                : source == Source.REQUESTS && level == Level.ERROR && listener.hidesError();
        }

        @Override
        public void log(String callerClass, Priority level, Object message, Throwable thrown) {
            if (!hides(level, message)) {
                next.log(callerClass, level, message, thrown);
            }
        }
    }
}

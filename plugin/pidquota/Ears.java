package pidquota;

import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Hears the messages of Kafka's loggers, and passes them to {@link Appends} and {@link Inits}. The class counts errors and
 * never passes them to the broker.
 */
final class Ears implements LogListener {
    private static final String PROBE = "pid-quota checks that messages of this logger reach it";

    private final Settings settings;
    private final PidMemory memory;
    private final Reports reports;
    private final Runnable wake;
    private final Logger log;
    private final AtomicLong errors = new AtomicLong();
    private CurrentRequest requests;
    private LogHook hook;
    private Appends appends;
    private Inits inits;
    private volatile String problem;
    private volatile Thread probing;
    private volatile int heard;

    Ears(Settings settings, PidMemory memory, Reports reports, Runnable wake, Logger log) {
        this.settings = settings;
        this.memory = memory;
        this.reports = reports;
        this.wake = wake;
        this.log = log;
    }

    void start() {
        try {
            requests = new CurrentRequest();
            appends = new Appends(requests, memory);
            inits = new Inits(requests, reports, settings.initsPerSecond);
            hook = LogHook.of(this);
            hook.install();
            if (!hears()) {
                problem = deaf("its log messages do not reach the plugin");
            }
        } catch (Throwable e) {
            Throwable reason = e instanceof ExceptionInInitializerError && e.getCause() != null ? e.getCause() : e;
            problem = deaf("it lacks something that the plugin needs (" + reason + ")");
        }
        if (problem != null) {
            stop();
        }
    }

    private static String deaf(String reason) {
        return "can't watch Kafka " + AppInfoParser.getVersion() + ", so no events are written: " + reason;
    }

    void stop() {
        if (hook != null) {
            hook.uninstall();
            hook = null;
        }
    }

    /** Why the class hears nothing; null if it hears. */
    String problem() {
        return problem;
    }

    @Override
    public boolean wants(Source source) {
        if (probing == Thread.currentThread()) {
            return true;
        }
        try {
            switch (source) {
                case BATCHES:
                    return appends.wants();
                case REQUESTS:
                    return inits.wants();
                default:
                    return false;
            }
        } catch (Throwable e) {
            failed(e);
            return false;
        }
    }

    @Override
    public boolean logged(Source source, String message) {
        if (probing == Thread.currentThread()) {
            heard |= 1 << source.ordinal();
            return true;
        }
        try {
            switch (source) {
                case BATCHES:
                    if (!appends.logged(message)) {
                        problem = deaf("the plugin can't parse messages of " + source.logger);
                        errors.incrementAndGet();
                    }
                    break;
                case REQUESTS:
                    inits.logged(message);
                    break;
                default:
                    inits.coordinated(message);
            }
            wake.run();
        } catch (Throwable e) {
            failed(e);
        }
        return false;
    }

    void failed(Throwable e) {
        if (errors.incrementAndGet() == 1) {
            try {
                log.error("pid-quota: can't process something; further errors are only counted", e);
            } catch (Throwable again) {
                // The error is counted, and the broker continues.
            }
        }
    }

    /** Log as {@link Source#BATCHES} and {@link Source#REQUESTS}; return whether both messages reach this class. */
    private boolean hears() {
        heard = 0;
        probing = Thread.currentThread();
        try {
            new LogContext("[pid-quota] ").logger(ProducerStateManager.class).trace("{} {}", PROBE, 1);
            Logger api = LoggerFactory.getLogger(Source.REQUESTS.logger);
            if (api.isTraceEnabled()) {
                api.trace(PROBE);
            }
        } finally {
            probing = null;
        }
        return heard == (1 << Source.BATCHES.ordinal() | 1 << Source.REQUESTS.ordinal());
    }

    /**
     * If a change of the log settings has removed the hook, install it again. A producer id that was missed meanwhile gets
     * its event at its next use. When the JVM ends, log4j drops its settings before Kafka has stopped.
     */
    void checkHook() {
        if (hook == null || hears()) {
            return;
        }
        hook.install();
        problem = hears() ? null : deaf("its log messages do not reach the plugin");
        if (!Reporter.isShuttingDown()) {
            log.warn("pid-quota: the log settings changed, so the plugin may have missed uses of producer ids for a second");
        }
    }

    /** Add counters to a report. */
    JsonFields addTo(JsonFields fields) {
        return fields.add("dropped_inits", inits == null ? 0 : inits.dropped.get())
            .add("ambiguous_inits", inits == null ? 0 : inits.ambiguous.get()).add("errors", errors.get());
    }
}

package pidquota;

import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/**
 * Writes lines about messages of Kafka's loggers ({@code wire/broker_lines.py} documents the lines). The class counts
 * errors and never passes them to the broker.
 */
final class BrokerLines implements LogListener {
    private static final int FORMAT = 1;
    private static final long ALIVE_EVERY_NS = 10_000_000_000L;
    private static final String PROBE = "pid-quota checks that messages of this logger reach it";

    private final Settings settings;
    private final Logger log;
    private final String run = UUID.randomUUID().toString().replace("-", "").substring(0, 16);
    private final AtomicLong errors = new AtomicLong();
    private final TickMemory written;
    private final LineWriter lines;
    private CurrentRequest requests;
    private LogHook hook;
    private Batches batches;
    private Inits inits;
    private volatile String problem;
    private volatile Thread probing;
    private volatile int heard;
    private long aliveNs = System.nanoTime();

    BrokerLines(Settings settings, Logger log) {
        this.settings = settings;
        this.log = log;
        written = new TickMemory(settings.memoryBytes);
        lines = new LineWriter(settings, this::everySecond, log);
    }

    void start() {
        try {
            requests = new CurrentRequest();
            batches = new Batches(requests, settings, written, lines);
            inits = new Inits(requests, lines, settings.initsPerSecond);
            hook = LogHook.of(this);
            hook.install();
            if (!hears()) {
                problem = "Kafka's log messages do not reach the class";
            }
        } catch (Throwable e) {
            Throwable reason = e instanceof ExceptionInInitializerError && e.getCause() != null ? e.getCause() : e;
            problem = "Kafka lacks something that the class needs (" + reason + ")";
        }
        if (problem != null) {
            unhook();
        }
        if (problem == null) {
            log.info("pid-quota: writing who appends with which producer id to {}", settings.file);
        } else {
            log.error("pid-quota: can't watch Kafka {}, so nothing is written: {}", AppInfoParser.getVersion(), problem);
        }
        lines.offer("start", state());
        lines.start();
    }

    /** Stop writing. {@code isShutdown} tells whether the broker also ends. */
    void stop(boolean isShutdown) {
        try {
            unhook();
            lines.offer("stop", state().add("shutdown", isShutdown));
            lines.stop();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | LinkageError e) {
            log.error("pid-quota: can't stop cleanly", e);
        }
    }

    private void unhook() {
        if (hook != null) {
            hook.uninstall();
            hook = null;
        }
    }

    @Override
    public boolean wants(Source source) {
        if (probing == Thread.currentThread()) {
            return true;
        }
        try {
            switch (source) {
                case BATCHES:
                    return batches.wants();
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
    public boolean hidesError() {
        try {
            return HoldAuthorizer.HELD.equals(MDC.get(HoldAuthorizer.LOG_KEY))
                && requests.context(ApiKeys.INIT_PRODUCER_ID) != null;
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
                    if (!batches.logged(message)) {
                        problem = "the class can't parse messages of " + source.logger;
                        errors.incrementAndGet();
                    }
                    break;
                case REQUESTS:
                    inits.logged(message);
                    break;
                default:
                    inits.coordinated(message);
            }
        } catch (Throwable e) {
            failed(e);
        }
        return false;
    }

    private void failed(Throwable e) {
        if (errors.incrementAndGet() == 1) {
            try {
                log.error("pid-quota: can't read a batch or a request; further errors are only counted", e);
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
     * If a change of the log settings has removed the hook, install it again and report a loss of lines. When the JVM
     * ends, log4j drops its settings before Kafka has stopped. Then there is no loss. Runs in the writer's thread.
     */
    private void everySecond() {
        try {
            boolean isLost = hook != null && !hears();
            boolean isLoss = isLost && !Reporter.isShuttingDown();
            if (isLost) {
                hook.install();
                problem = hears() ? null : "Kafka's log messages do not reach the class";
            }
            if (isLoss) {
                lines.skipNumber();
                log.warn("pid-quota: the log settings changed, so the class may have missed some batches");
            }
            if (System.nanoTime() - aliveNs >= ALIVE_EVERY_NS) {
                aliveNs += ALIVE_EVERY_NS;
                lines.offer("alive", state());
            }
        } catch (Throwable e) {
            failed(e);
        }
    }

    private JsonFields state() {
        return new JsonFields().add("run", run).add("format", FORMAT)
            .add("class_version", BrokerLines.class.getPackage().getImplementationVersion())
            .add("kafka_version", AppInfoParser.getVersion()).add("tick_ms", settings.tickMs)
            .add("metadata_log", settings.metadataLog).add("problem", problem)
            .add("dropped_lines", lines.dropped()).add("dropped_inits", inits == null ? 0 : inits.dropped.get())
            .add("ambiguous_inits", inits == null ? 0 : inits.ambiguous.get()).add("errors", errors.get())
            .add("forgotten_ticks", written.forgotten());
    }
}

package pidquota;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Loads pid-quota into a broker by {@code metric.reporters=…,pidquota.Reporter}, in {@code server.properties} or at run
 * time (KIP-226). This class reports no metrics. It is a reporter because Kafka starts and stops reporters.
 */
public class Reporter implements MetricsReporter {
    private static final Logger LOG = LoggerFactory.getLogger(Reporter.class);

    /** One for all reporters of the process: a combined node (broker and controller) has two. Guarded by the class. */
    private static Plugin running;
    private static int users;
    private static Thread shutdownHook;

    private boolean isUser;
    private volatile String sslPrefix = "";

    @Override
    public void configure(Map<String, ?> configs) {
        try {
            Settings settings = new Settings(configs, LOG);
            if (settings.isBroker) {
                use(settings);
            }
        } catch (Throwable e) {
            LOG.error("pid-quota: can't start, so no events are written", e);
        }
    }

    private void use(Settings settings) {
        synchronized (Reporter.class) {
            if (!isUser && users++ == 0) {
                running = new Plugin(settings, LOG);
                running.start();
                shutdownHook = new Thread(running::shutDown, "pid-quota-shutdown");
                Runtime.getRuntime().addShutdownHook(shutdownHook);
            }
            isUser = true;
            sslPrefix = new KafkaLogin(settings).prefix();
        }
    }

    /** Write a report if this class is loaded. */
    static void report(String type, JsonFields fields) {
        synchronized (Reporter.class) {
            if (running != null) {
                running.report(type, fields);
            }
        }
    }

    @Override
    public void close() {
        synchronized (Reporter.class) {
            if (isUser && --users == 0) {
                boolean isShutdown = isShuttingDown();
                if (!isShutdown) {
                    Runtime.getRuntime().removeShutdownHook(shutdownHook);
                }
                running.stop(isShutdown);
                running = null;
            }
            isUser = false;
        }
    }

    static boolean isRunning() {
        synchronized (Reporter.class) {
            return running != null;
        }
    }

    /** Whether the JVM is ending. An ending JVM accepts no shutdown hooks. */
    static boolean isShuttingDown() {
        Thread hook = new Thread();
        try {
            Runtime.getRuntime().addShutdownHook(hook);
            Runtime.getRuntime().removeShutdownHook(hook);
            return false;
        } catch (IllegalStateException e) {
            return true;
        }
    }

    /** The stores of certificates that can be changed at run time, of the listener between brokers (KIP-226). */
    @Override
    public Set<String> reconfigurableConfigs() {
        return SslConfigs.RECONFIGURABLE_CONFIGS.stream().flatMap(name -> Stream.of(name, sslPrefix + name)).collect(Collectors.toSet());
    }

    @Override
    public void reconfigure(Map<String, ?> configs) {
        try {
            synchronized (Reporter.class) {
                if (isUser) {
                    running.renewClients(new Settings(configs, LOG));
                }
            }
        } catch (RuntimeException e) {
            LOG.error("pid-quota: can't apply changed certificates", e);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
        // Nothing to report.
    }

    @Override
    public void metricChange(KafkaMetric metric) {
        // Nothing to report.
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
        // Nothing to report.
    }
}

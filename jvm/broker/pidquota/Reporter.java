package pidquota;

import java.util.List;
import java.util.Map;

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
    private static BrokerLines running;
    private static int users;

    private boolean isUser;

    @Override
    public void configure(Map<String, ?> configs) {
        try {
            Settings settings = new Settings(configs, LOG);
            if (settings.isBroker) {
                use(settings);
            }
        } catch (Throwable e) {
            LOG.error("pid-quota: can't start, so nothing is written", e);
        }
    }

    private void use(Settings settings) {
        synchronized (Reporter.class) {
            if (!isUser && users++ == 0) {
                running = new BrokerLines(settings, LOG);
                running.start();
            }
            isUser = true;
        }
    }

    @Override
    public void close() {
        synchronized (Reporter.class) {
            if (isUser && --users == 0) {
                running.stop(isShuttingDown());
                running = null;
            }
            isUser = false;
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

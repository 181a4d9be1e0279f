package pidquota;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.slf4j.Logger;

/** The properties {@code pid.quota.*} in {@code server.properties}, and some of the broker's properties. */
final class Settings {
    static final String PREFIX = "pid.quota.";
    /** pid-quota's topics that are written with producer ids. A test compares them with {@code wire/topics.py}. */
    private static final List<String> OWN_TOPICS = List.of(
        "produce-events", "producer-inits", "producer-id-blocks", "tap-status", "broker-logs");

    final int brokerId;
    final boolean isBroker;
    final String metadataLog;
    final Path file;
    final long fileBytes;
    final int fileCount;
    final long tickMs;
    final long memoryBytes;
    final int initsPerSecond;
    final Set<String> ignoredTopics;

    private final Map<String, ?> configs;
    private final Logger log;

    Settings(Map<String, ?> configs, Logger log) {
        this.configs = configs;
        this.log = log;
        String roles = text("process.roles", "");
        // With ZooKeeper (Kafka 3), there are no roles, and each node is a broker.
        isBroker = roles.isEmpty() || roles.contains("broker");
        brokerId = (int) number("broker.id", number("node.id", -1, -1), -1);
        String folder = text("metadata.log.dir", text("log.dirs", text("log.dir", "")).split(",")[0].trim());
        metadataLog = roles.isEmpty() || folder.isEmpty() ? null : Path.of(folder, "__cluster_metadata-0").toString();
        file = Path.of(text(PREFIX + "file",
            Path.of(System.getProperty("kafka.logs.dir", "logs"), "pid-quota-broker.log").toString())).toAbsolutePath();
        fileBytes = number(PREFIX + "file.bytes", 64L << 20, 4096);
        fileCount = (int) number(PREFIX + "file.count", 4, 1);
        tickMs = number(PREFIX + "tick.ms", 10_000, 1);
        memoryBytes = number(PREFIX + "memory.bytes", 16L << 20, 1 << 16);
        initsPerSecond = (int) number(PREFIX + "inits.per.second", 1000, 0);
        ignoredTopics = new HashSet<>(OWN_TOPICS);
        ignoredTopics.addAll(Arrays.asList(text(PREFIX + "ignored.topics", "").trim().split("\\s*,\\s*")));
    }

    /** Return a property as text. Kafka passes a list property as a list or as text. */
    private String text(String name, String otherwise) {
        Object value = configs.get(name);
        if (value instanceof List) {
            return String.join(",", ((List<?>) value).stream().map(Object::toString).toArray(String[]::new));
        }
        return value == null || value.toString().isBlank() ? otherwise : value.toString().trim();
    }

    private long number(String name, long otherwise, long least) {
        String value = text(name, Long.toString(otherwise));
        try {
            long number = Long.parseLong(value);
            if (number >= least && number <= Integer.MAX_VALUE * 1024L) {
                return number;
            }
        } catch (NumberFormatException e) {
            // Reported below.
        }
        log.error("pid-quota: {}={} is not a whole number of at least {}: using {}", name, value, least, otherwise);
        return otherwise;
    }
}

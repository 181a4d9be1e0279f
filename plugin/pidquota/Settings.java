package pidquota;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.common.config.types.Password;
import org.slf4j.Logger;

/** The properties {@code pid.quota.*} in {@code server.properties}, and some of the broker's properties. */
final class Settings {
    static final String PREFIX = "pid.quota.";
    private static final String METADATA_LOG = "__cluster_metadata-0";
    private static final Set<String> AUTHORIZERS = Set.of("pidquota.HoldAuthorizer", "pidquota.HoldAnyAuthorizer");
    private static final int MOST_HOLDS = 1000;

    final int brokerId;
    final boolean isBroker;
    final boolean hasAuthorizer;
    /** Folder of this node's copy of the metadata log. */
    final Path metadataLog;
    /** The plugin's state, which outlives a restart. */
    final Path stateFile;
    final long repeatMs;
    final long windowMs;
    final long memoryBytes;
    final int initsPerSecond;
    final boolean createsTopics;
    final int partitions;

    private final Map<String, ?> configs;
    private final Logger log;

    Settings(Map<String, ?> configs, Logger log) {
        this.configs = configs;
        this.log = log;
        isBroker = text("process.roles", "").contains("broker");
        // At a change at run time, Kafka passes the default of broker.id, -1, beside node.id.
        int nodeId = (int) number("node.id", -1, -1);
        brokerId = nodeId >= 0 ? nodeId : (int) number("broker.id", -1, -1);
        hasAuthorizer = AUTHORIZERS.contains(text("authorizer.class.name", ""));
        Path logs = Path.of(text("log.dirs", text("log.dir", "/tmp/kafka-logs")).split(",")[0].trim());
        metadataLog = Path.of(text("metadata.log.dir", logs.toString()), METADATA_LOG);
        stateFile = logs.resolve("pid-quota.state");
        repeatMs = number(PREFIX + "repeat.ms", 30_000, 100);
        windowMs = number(PREFIX + "window.ms", 3_600_000, 1000);
        memoryBytes = number(PREFIX + "memory.bytes", 32L << 20, 1 << 16);
        initsPerSecond = (int) number(PREFIX + "inits.per.second", 1000, 0);
        createsTopics = isTrue(PREFIX + "create.topics", true);
        partitions = (int) number(PREFIX + "partitions", 12, 1);
    }

    /** Return the broker's properties as Kafka passes them: texts at a start, parsed values at a change at run time. */
    Map<String, ?> configs() {
        return configs;
    }

    /** Return a property as text. Kafka passes a list as a list or as text, and a password as text or as an object. */
    String text(String name, String otherwise) {
        Object value = configs.get(name);
        if (value instanceof List) {
            value = String.join(",", ((List<?>) value).stream().map(Object::toString).toArray(String[]::new));
        } else if (value instanceof Password) {
            value = ((Password) value).value();
        } else if (value instanceof Class) {
            value = ((Class<?>) value).getName();
        }
        return value == null || value.toString().isBlank() ? otherwise : value.toString().trim();
    }

    /** Most principals that this broker holds at once. */
    int maxHolds(Logger authorizerLog) {
        return (int) number(PREFIX + "max.holds", 50, 0, MOST_HOLDS, authorizerLog);
    }

    /** The principals in a property, separated by semicolons. */
    Set<String> principals(String name, Logger authorizerLog) {
        Set<String> found = new TreeSet<>();
        for (String each : text(name, "").split(";")) {
            String principal = each.trim();
            if (principal.matches("[^:]+:.+")) {
                found.add(principal);
            } else if (!principal.isEmpty()) {
                authorizerLog.error("pid-quota: {}: {} is not a principal such as User:alice: ignoring it", name, principal);
            }
        }
        return found;
    }

    private long number(String name, long otherwise, long least) {
        return number(name, otherwise, least, Integer.MAX_VALUE, log);
    }

    private long number(String name, long otherwise, long least, long most, Logger to) {
        String value = text(name, Long.toString(otherwise));
        try {
            long number = Long.parseLong(value);
            if (number >= least && number <= most) {
                return number;
            }
        } catch (NumberFormatException e) {
            // Reported below.
        }
        to.error("pid-quota: {}={} is not a whole number from {} to {}: using {}", name, value, least, most, otherwise);
        return otherwise;
    }

    private boolean isTrue(String name, boolean otherwise) {
        String value = text(name, Boolean.toString(otherwise));
        if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
            log.error("pid-quota: {}={} is neither true nor false: using {}", name, value, otherwise);
            return otherwise;
        }
        return Boolean.parseBoolean(value);
    }
}

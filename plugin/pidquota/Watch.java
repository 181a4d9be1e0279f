package pidquota;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Properties;

/**
 * Which producer ids may be older than this plugin's watch. A watch begins with the first producer id that is not handed
 * out yet. For a window, smaller ids are learned: they may have been in use before. Later ids are new.
 *
 * <p>A small file keeps the watch, so that a restart within a window begins no new one: else a restart would free a flood.
 * If the first id is unknown, all ids are learned.
 */
final class Watch {
    private static final String CLUSTER = "cluster_id";
    private static final String BROKER = "broker_id";
    private static final String BELOW = "learns_below";
    private static final String UNTIL = "learns_until_ms";
    private static final String SEEN = "seen_ms";
    private static final String BLOCK = "reported_block_end";

    private final Path file;
    private final String clusterId;
    private final int brokerId;
    private final long windowMs;
    private boolean hasBegun;
    private Long below;
    private long untilMs;
    private long reportedBlockEnd;

    Watch(Settings settings) {
        file = settings.stateFile;
        clusterId = clusterOf(file.resolveSibling("meta.properties"));
        brokerId = settings.brokerId;
        windowMs = settings.windowMs;
    }

    /** The cluster for which Kafka formatted the folder; empty if the file can't be read. */
    private static String clusterOf(Path meta) {
        Properties properties = new Properties();
        try (InputStream in = Files.newInputStream(meta)) {
            properties.load(in);
        } catch (IOException | IllegalArgumentException e) {
            return "";
        }
        return properties.getProperty("cluster.id", "");
    }

    /** Go on with the watch in the file if that was in force less than a window ago. Throws if the file can't be read. */
    void resume(long nowMs) throws IOException {
        Properties saved = new Properties();
        try (InputStream in = Files.newInputStream(file)) {
            saved.load(in);
            if (!clusterId.equals(saved.getProperty(CLUSTER)) || number(saved, BROKER) != brokerId) {
                return;
            }
            reportedBlockEnd = number(saved, BLOCK);
            if (Math.abs(nowMs - number(saved, SEEN)) < windowMs) {
                below = saved.getProperty(BELOW) == null ? null : number(saved, BELOW);
                untilMs = Math.min(number(saved, UNTIL), nowMs + windowMs);
                hasBegun = true;
            }
        } catch (NoSuchFileException e) {
            // There is no earlier watch.
            hasBegun = false;
        } catch (IllegalArgumentException e) {
            throw new IOException("it is damaged: " + e.getMessage(), e);
        }
    }

    private static long number(Properties saved, String name) {
        return Long.parseLong(saved.getProperty(name, ""));
    }

    boolean hasBegun() {
        return hasBegun;
    }

    /** Begin a watch. {@code nextProducerId} is null if it is unknown. */
    void begin(Long nextProducerId, long nowMs) {
        below = nextProducerId;
        untilMs = nowMs + windowMs;
        hasBegun = true;
    }

    boolean isLearning(long producerId, long timestampMs) {
        return timestampMs < untilMs && (below == null || producerId < below);
    }

    /** Whether a block was not reported yet. The caller then reports it. */
    boolean isNew(MetadataLog.Block block) {
        if (block.next() <= reportedBlockEnd) {
            return false;
        }
        reportedBlockEnd = block.next();
        return true;
    }

    /** Write the file. */
    void save(long nowMs) throws IOException {
        Properties saved = new Properties();
        saved.setProperty(CLUSTER, clusterId);
        saved.setProperty(BROKER, Integer.toString(brokerId));
        saved.setProperty(UNTIL, Long.toString(untilMs));
        saved.setProperty(SEEN, Long.toString(nowMs));
        saved.setProperty(BLOCK, Long.toString(reportedBlockEnd));
        if (below != null) {
            saved.setProperty(BELOW, Long.toString(below));
        }
        Path whole = file.resolveSibling(file.getFileName() + ".tmp");
        try (OutputStream out = Files.newOutputStream(whole)) {
            saved.store(out, "The watch of pid-quota (docs/plugin.md)");
        }
        Files.move(whole, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    }

    /** Add the watch to a report. */
    JsonFields addTo(JsonFields fields) {
        return hasBegun ? fields.add("learns_below", below).add("learns_until_ms", untilMs) : fields;
    }
}

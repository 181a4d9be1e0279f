import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.LongStream;
import org.apache.commons.collections4.bloomfilter.EnhancedDoubleHasher;
import org.apache.commons.collections4.bloomfilter.IndexExtractor;
import org.apache.commons.collections4.bloomfilter.LayerManager;
import org.apache.commons.collections4.bloomfilter.LayeredBloomFilter;
import org.apache.commons.collections4.bloomfilter.Shape;
import org.apache.commons.collections4.bloomfilter.SimpleBloomFilter;
import org.apache.commons.collections4.bloomfilter.WrappedBloomFilter;

/**
 * The cache of KIP-936 as its text describes it: a layered Bloom filter per principal, whose layers have a time.
 *
 * <p>Arguments: rounds, false positive rate, then pairs of PIDs and layers. For each pair it prints a line of JSON with the
 * median nanoseconds of a look-up and of an admission after warm-up. It counts no rate and takes no token.
 */
public final class LayeredPeer {
    private static final long WINDOW_MS = 3_600_000;
    private static final int FRESH = 20_000;
    private static final int WARM_UP_ROUNDS = 30;
    private static final String PRINCIPAL = "User:a";

    private final ConcurrentHashMap<String, LayeredBloomFilter<TimestampedFilter>> cache = new ConcurrentHashMap<>();
    private final Shape shape;
    private final long quantumMs;
    private final int capacity;
    private long nowMs = 1_790_000_100_000L;

    private LayeredPeer(int capacity, int layers, double falsePositiveRate) {
        this.capacity = capacity;
        this.shape = Shape.fromNP(capacity, falsePositiveRate);
        this.quantumMs = WINDOW_MS / layers;
    }

    /** A layer, with the time when it was begun and the number of PIDs written to it. */
    private static final class TimestampedFilter extends WrappedBloomFilter<TimestampedFilter, SimpleBloomFilter> {
        final long begunMs;
        int entries;

        TimestampedFilter(SimpleBloomFilter wrapped, long begunMs, int entries) {
            super(wrapped);
            this.begunMs = begunMs;
            this.entries = entries;
        }

        @Override
        public TimestampedFilter copy() {
            return new TimestampedFilter(getWrapped().copy(), begunMs, entries);
        }
    }

    /** Create a filter whose layers expire and extend as the KIP says: by time, and when the newest layer is full. */
    private LayeredBloomFilter<TimestampedFilter> newFilter(String principal) {
        LayerManager<TimestampedFilter> manager = LayerManager.<TimestampedFilter>builder()
                .setSupplier(() -> new TimestampedFilter(new SimpleBloomFilter(shape), nowMs, 0))
                .setExtendCheck(layers -> {
                    TimestampedFilter newest = layers.last();
                    return nowMs - newest.begunMs >= quantumMs || newest.entries >= capacity;
                })
                .setCleanup(layers -> {
                    while (!layers.isEmpty() && nowMs - layers.getFirst().begunMs > WINDOW_MS) {
                        layers.removeFirst();
                    }
                })
                .get();
        return new LayeredBloomFilter<>(shape, manager);
    }

    /** Return whether a PID is known, and remember it. */
    private boolean track(String principal, long pid) {
        LayeredBloomFilter<TimestampedFilter> filter = cache.computeIfAbsent(principal, this::newFilter);
        IndexExtractor bits = new EnhancedDoubleHasher(mixed(pid), mixed(pid + 0x9E3779B97F4A7C15L)).indices(shape);
        // `LayeredBloomFilter.contains` would first make a whole filter of the PID, which takes up to 200 times as long.
        if (!filter.processBloomFilters(layer -> !layer.contains(bits))) {
            return true;
        }
        filter.merge(bits);
        // A merge may have begun a new layer. The PID is in the newest layer.
        filter.get(filter.getDepth() - 1).entries++;
        return false;
    }

    /** The finaliser of SplitMix64. */
    private static long mixed(long value) {
        value = (value ^ (value >>> 30)) * 0xBF58476D1CE4E5B9L;
        value = (value ^ (value >>> 27)) * 0x94D049BB133111EBL;
        return value ^ (value >>> 31);
    }

    private long[] fill(int size, int layers) {
        int share = Math.max(1, size / layers);
        long[] pids = new long[0];
        for (int layer = 0; layer < layers; layer++) {
            nowMs += layer == 0 ? 0 : quantumMs;
            pids = LongStream.range((long) layer * share, (layer + 1L) * share).toArray();
            for (long pid : pids) {
                track(PRINCIPAL, pid);
            }
        }
        return pids;
    }

    private double nanoseconds(long[] pids, int times, boolean known) {
        int found = 0;
        long begin = System.nanoTime();
        for (int time = 0; time < times; time++) {
            for (long pid : pids) {
                found += track(PRINCIPAL, pid) ? 1 : 0;
            }
        }
        double taken = (System.nanoTime() - begin) / ((double) pids.length * times);
        if (known ? found != pids.length * times : found > pids.length / 100) {
            throw new IllegalStateException("of " + pids.length * times + " PIDs " + found + " were found");
        }
        return taken;
    }

    private static double lookup(int size, int layers, double falsePositiveRate) {
        LayeredPeer peer = new LayeredPeer(Math.max(1, size / layers), layers, falsePositiveRate);
        long[] newest = peer.fill(size, layers);
        return peer.nanoseconds(newest, 1 + FRESH / newest.length, true);
    }

    private static double admission(int size, int layers, double falsePositiveRate) {
        // Make room for all PIDs, because a filter that is extended again and again would be slower.
        LayeredPeer peer = new LayeredPeer(Math.max(1, size / layers) + FRESH, layers, falsePositiveRate);
        peer.fill(size, layers);
        return peer.nanoseconds(LongStream.range(1_000_000_000L, 1_000_000_000L + FRESH).toArray(), 1, false);
    }

    private static double median(List<Double> values) {
        return values.stream().sorted().skip(values.size() / 2).findFirst().orElseThrow();
    }

    public static void main(String[] arguments) {
        int rounds = Integer.parseInt(arguments[0]);
        double falsePositiveRate = Double.parseDouble(arguments[1]);
        for (int pair = 2; pair + 1 < arguments.length; pair += 2) {
            int size = Integer.parseInt(arguments[pair]);
            int layers = Integer.parseInt(arguments[pair + 1]);
            List<Double> lookups = new ArrayList<>();
            List<Double> admissions = new ArrayList<>();
            for (int round = -WARM_UP_ROUNDS; round < rounds; round++) {
                double lookup = lookup(size, layers, falsePositiveRate);
                double admission = admission(size, layers, falsePositiveRate);
                if (round >= 0) {
                    lookups.add(lookup);
                    admissions.add(admission);
                }
            }
            System.out.printf(Locale.ROOT, "{\"size\": %d, \"layers\": %d, \"lookup_ns\": %.1f, \"admit_ns\": %.1f}%n",
                    size, layers, median(lookups), median(admissions));
        }
    }
}

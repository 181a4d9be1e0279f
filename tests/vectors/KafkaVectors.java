// Drives Kafka's own Rate and TokenBucket with explicit times and prints what they say, as JSON.
// Regenerate (the jars come from `make jars`), from the root of the repository:
//   java -cp '.jars/kafka/*' tests/vectors/KafkaVectors.java > tests/vectors/kafka.json
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.metrics.stats.WindowedSum;

public class KafkaVectors {
    private static final long START_MS = 1_790_000_000_000L;

    public static void main(String[] args) {
        List<String> runs = new ArrayList<>();
        long[] gapsMs = {50, 4_000, 60_000, 900_000, 3_600_000, 20_000_000};
        for (int samples : new int[] {1, 11}) {
            for (int seed = 0; seed < gapsMs.length; seed++) {
                runs.add(run(samples, 3600, 100.0, gapsMs[seed], seed));
            }
        }
        runs.add(run(11, 60, 7.5, 2_000, 77));
        System.out.println("[\n" + String.join(",\n", runs) + "\n]");
    }

    /**
     * Steps of random length below `gapMs`: record one PID and measure both; sometimes only measure the bucket.
     * A Rate is measured right after it recorded, as Kafka's quotas do: measuring an idle Rate resets its expired
     * samples, so what it says later would depend on who looked at it when.
     */
    private static String run(int samples, int windowSeconds, double quota, long gapMs, int seed) {
        Random random = new Random(seed);
        MetricConfig config = new MetricConfig()
            .samples(samples).timeWindow(windowSeconds, TimeUnit.SECONDS).quota(Quota.upperBound(quota / windowSeconds));
        Rate rate = new Rate(TimeUnit.SECONDS, new WindowedSum());
        TokenBucket bucket = new TokenBucket(TimeUnit.SECONDS);
        List<String> steps = new ArrayList<>();
        long nowMs = START_MS;
        for (int step = 0; step < 400; step++) {
            nowMs += random.nextInt((int) gapMs);
            boolean records = random.nextInt(4) > 0 || step == 0;
            if (records) {
                rate.record(config, 1, nowMs);
                bucket.record(config, 1, nowMs);
            }
            steps.add(String.format(Locale.ROOT, "[%d,%d,%s,%s]", nowMs, records ? 1 : 0,
                records ? rate.measure(config, nowMs) * windowSeconds : "null", bucket.measure(config, nowMs)));
        }
        return String.format(Locale.ROOT,
            "{\"window_num\":%d,\"window_seconds\":%d,\"quota\":%s,\"gap_ms\":%d,\"steps\":[%s]}",
            samples, windowSeconds, quota, gapMs, String.join(",", steps));
    }
}

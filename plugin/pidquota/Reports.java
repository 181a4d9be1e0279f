package pidquota;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;

/** A bounded queue of reports for the topic {@code pid-quota-reports} ({@code wire/plugin_reports.py} documents them). */
final class Reports {
    private static final long MOST_BYTES = 4L << 20;

    // Guarded by `this`.
    private final Queue<Report> queue = new ArrayDeque<>();
    private long bytes;

    /** Queue a report with the present time. Return false if the queue is full. */
    boolean offer(String type, JsonFields fields) {
        return offer(new Report(type, System.currentTimeMillis(), fields));
    }

    /** Queue a report. Return false if the queue is full. */
    synchronized boolean offer(Report report) {
        if (bytes + report.bytes() > MOST_BYTES) {
            return false;
        }
        queue.add(report);
        bytes += report.bytes();
        return true;
    }

    /** Take up to {@code most} reports, the oldest first. */
    synchronized List<Report> take(int most) {
        List<Report> taken = new ArrayList<>();
        while (taken.size() < most && !queue.isEmpty()) {
            Report report = queue.remove();
            bytes -= report.bytes();
            taken.add(report);
        }
        return taken;
    }

    synchronized boolean isEmpty() {
        return queue.isEmpty();
    }

    static final class Report {
        final String type;
        private final long timestampMs;
        private final JsonFields fields;

        Report(String type, long timestampMs, JsonFields fields) {
            this.type = type;
            this.timestampMs = timestampMs;
            this.fields = fields;
        }

        private long bytes() {
            return 100 + 2L * fields.length();
        }

        String value(int brokerId, String clusterId) {
            return new JsonFields().add("type", type).add("timestamp_ms", timestampMs).add("broker_id", brokerId)
                .add("cluster_id", clusterId).addAll(fields).toString();
        }
    }
}

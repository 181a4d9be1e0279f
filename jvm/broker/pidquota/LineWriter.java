package pidquota;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;

import org.slf4j.Logger;

/**
 * Writes numbered lines in a thread, so a slow disk never delays a request. A line is dropped if the queue is full or
 * the write fails. The dropped line's number is missing in the file.
 */
final class LineWriter {
    private static final long QUEUE_BYTES = 8L << 20;
    private static final long WAIT_MS = 500;
    private static final long SECOND_MS = 1000;
    private static final long STOP_MS = 5000;
    private static final long REPORT_MS = 60_000;

    private final RotatingFile file;
    private final int brokerId;
    private final Runnable everySecond;
    private final Logger log;
    private final Thread thread = new Thread(this::run, "pid-quota-writer");

    // Guarded by `this`.
    private final Queue<Line> queue = new ArrayDeque<>();
    private long queuedBytes;
    private long number;
    private long dropped;
    private boolean stopped;

    private long reportedAt;

    /**
     * Create a writer.
     *
     * @param everySecond runs in the writer's thread about once a second.
     */
    LineWriter(Settings settings, Runnable everySecond, Logger log) {
        file = new RotatingFile(settings.file, settings.fileBytes, settings.fileCount);
        brokerId = settings.brokerId;
        this.everySecond = everySecond;
        this.log = log;
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Queue a line. Return false if the line was dropped. */
    synchronized boolean offer(String type, JsonFields fields) {
        Line line = new Line(type, ++number, System.currentTimeMillis(), fields);
        if (stopped || queuedBytes + line.bytes() > QUEUE_BYTES) {
            dropped++;
            return false;
        }
        queue.add(line);
        queuedBytes += line.bytes();
        if (queue.size() == 1) {
            notifyAll();
        }
        return true;
    }

    /** Skip a number to tell readers of a loss. */
    synchronized void skipNumber() {
        number++;
        dropped++;
    }

    /** Number of dropped lines. */
    synchronized long dropped() {
        return dropped;
    }

    /** Write the queued lines, then end the thread. */
    void stop() throws InterruptedException {
        synchronized (this) {
            stopped = true;
            notifyAll();
        }
        thread.join(STOP_MS);
    }

    private void run() {
        long lastMs = 0;
        try {
            while (true) {
                List<Line> lines = take();
                if (!lines.isEmpty()) {
                    write(lines);
                } else if (isStopped()) {
                    return;
                }
                long nowMs = System.nanoTime() / 1_000_000;
                if (nowMs - lastMs >= SECOND_MS) {
                    lastMs = nowMs;
                    everySecond.run();
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            file.close();
        }
    }

    private synchronized boolean isStopped() {
        return stopped && queue.isEmpty();
    }

    private synchronized List<Line> take() throws InterruptedException {
        if (queue.isEmpty() && !stopped) {
            wait(WAIT_MS);
        }
        List<Line> lines = new ArrayList<>(queue);
        queue.clear();
        queuedBytes = 0;
        return lines;
    }

    private void write(List<Line> lines) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (Line line : lines) {
            byte[] bytes = line.text(brokerId).getBytes(StandardCharsets.UTF_8);
            out.write(bytes, 0, bytes.length);
        }
        try {
            file.append(ByteBuffer.wrap(out.toByteArray()));
        } catch (IOException e) {
            synchronized (this) {
                dropped += lines.size();
            }
            report(e);
        }
    }

    private void report(IOException e) {
        long nowMs = System.nanoTime() / 1_000_000;
        if (reportedAt == 0 || nowMs - reportedAt >= REPORT_MS) {
            reportedAt = nowMs;
            log.error("pid-quota: can't write {}: {} ({} lines dropped so far)", file, e, dropped());
        }
    }

    private static final class Line {
        private final String type;
        private final long number;
        private final long timestampMs;
        private final JsonFields fields;

        Line(String type, long number, long timestampMs, JsonFields fields) {
            this.type = type;
            this.number = number;
            this.timestampMs = timestampMs;
            this.fields = fields;
        }

        long bytes() {
            return 100 + 2L * fields.length();
        }

        String text(int brokerId) {
            JsonFields head = new JsonFields().add("type", type).add("number", number).add("timestamp_ms", timestampMs)
                .add("broker_id", brokerId);
            return "{" + head + "," + fields + "}\n";
        }
    }
}

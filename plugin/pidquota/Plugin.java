package pidquota;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.common.utils.AppInfoParser;
import org.slf4j.Logger;

import pidquota.EventRecords.EventRecord;

/**
 * Writes events and reports about this broker to Kafka. Threads of requests only add to {@link PidMemory} and {@link
 * Reports}; the plugin's own thread does everything else. No error reaches the broker.
 */
final class Plugin implements Runnable {
    private static final long ALIVE_EVERY_NS = 10_000_000_000L;
    private static final long SECOND_NS = 1_000_000_000L;
    /** Time in which events gather before they are packed into records. */
    private static final long GATHER_NS = 20_000_000L;
    /** While events follow each other. Each write costs this broker two requests and two threads' turns. */
    private static final long BUSY_GATHER_NS = 50_000_000L;
    private static final long IDLE_NS = 500_000_000L;
    private static final long STOP_MS = 250;
    private static final int MOST_EVENTS = 20_000;
    private static final int MOST_REPORTS = 1000;

    private final Settings settings;
    private final Logger log;
    private final String run = UUID.randomUUID().toString().replace("-", "").substring(0, 16);
    private final Thread thread = new Thread(this, "pid-quota-plugin");
    private final AtomicLong delivered = new AtomicLong();
    private final Reports reports = new Reports();
    private final PidMemory memory;
    private final KafkaWriter writer;
    private final Watch watch;
    private final MetadataLog metadataLog;
    private final Ears ears;
    private final ProblemLog problems;
    private volatile boolean isStopped;
    private volatile boolean isShuttingDown;
    private volatile boolean isIdle;

    // Only the plugin's thread uses these.
    private long startedMs;
    private boolean hasSaidStart;
    private boolean hasSaidStop;
    private String metadataProblem;
    private String stateProblem;
    private long secondNs = System.nanoTime();
    private long wroteNs = secondNs - BUSY_GATHER_NS;
    private long aliveNs = secondNs;

    Plugin(Settings settings, Logger log) {
        this.settings = settings;
        this.log = log;
        memory = new PidMemory(settings, System.currentTimeMillis());
        writer = new KafkaWriter(settings, this::wake);
        watch = new Watch(settings);
        metadataLog = new MetadataLog(settings.metadataLog, settings.brokerId);
        ears = new Ears(settings, memory, reports, this::wake, log);
        problems = new ProblemLog(log);
        thread.setDaemon(true);
    }

    void start() {
        ears.start();
        if (ears.problem() == null) {
            log.info("pid-quota: writing who appends with which producer id to the topic {}", Topics.EVENTS);
        }
        try {
            watch.resume(System.currentTimeMillis());
        } catch (IOException e) {
            log.warn("pid-quota: can't read {} ({}), so a new watch begins", settings.stateFile, e.toString());
        }
        startedMs = System.currentTimeMillis();
        writer.start();
        thread.start();
    }

    /** Report the end as soon as the JVM begins to end, while this broker still answers. */
    void shutDown() {
        isShuttingDown = true;
        wake();
    }

    void report(String type, JsonFields fields) {
        reports.offer(type, fields);
        wake();
    }

    /** The login between brokers has changed. */
    void renewClients(Settings changed) {
        writer.renew(changed);
    }

    /** Stop within half a second. {@code isShutdown} tells whether the broker also ends. */
    void stop(boolean isShutdown) {
        try {
            ears.stop();
            isShuttingDown |= isShutdown;
            isStopped = true;
            wake();
            thread.join(STOP_MS);
            writer.stop(Duration.ofMillis(STOP_MS));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | LinkageError e) {
            log.error("pid-quota: can't stop cleanly", e);
        }
    }

    /** Let the plugin's thread look for work. Threads of requests call this, so it must be fast. */
    private void wake() {
        if (isIdle) {
            isIdle = false;
            LockSupport.unpark(thread);
        }
    }

    @Override
    public void run() {
        while (!isStopped) {
            try {
                rest();
                everySecond();
                memory.visit(System.currentTimeMillis());
                write();
            } catch (Throwable e) {
                ears.failed(e);
            }
        }
        try {
            sayStop();
            write();
        } catch (Throwable e) {
            ears.failed(e);
        }
    }

    /** Let events gather, or sleep until there are any. */
    private void rest() {
        isIdle = true;
        // A thread that added work before it could see `isIdle` does not wake this one.
        if (memory.waiting() == 0 && reports.isEmpty() && !isStopped) {
            LockSupport.parkNanos(memory.isEmpty() ? IDLE_NS : Math.min(IDLE_NS, memory.momentNs()));
        }
        isIdle = false;
        if (memory.waiting() > 0 || !reports.isEmpty()) {
            boolean isBusy = System.nanoTime() - wroteNs < BUSY_GATHER_NS;
            LockSupport.parkNanos(isBusy ? BUSY_GATHER_NS : GATHER_NS);
            wroteNs = System.nanoTime();
        }
    }

    private void everySecond() {
        if (isShuttingDown) {
            sayStop();
        }
        if (System.nanoTime() - secondNs < SECOND_NS) {
            return;
        }
        secondNs = System.nanoTime();
        ears.checkHook();
        readBlocks();
        problems.now(problem());
        if (secondNs - aliveNs >= ALIVE_EVERY_NS) {
            aliveNs = secondNs;
            if (hasSaidStart) {
                reports.offer("alive", state());
                save();
            }
        }
    }

    private void sayStop() {
        if (hasSaidStart && !hasSaidStop) {
            hasSaidStop = true;
            reports.offer("stop", state().add("shutdown", isShuttingDown));
            save();
        }
    }

    private String problem() {
        if (ears.problem() != null) {
            return ears.problem();
        }
        String ofWriter = writer.problem();
        return ofWriter != null ? ofWriter : metadataProblem != null ? metadataProblem : stateProblem;
    }

    private void save() {
        try {
            watch.save(System.currentTimeMillis());
            stateProblem = null;
        } catch (IOException e) {
            stateProblem = "can't write " + settings.stateFile + " (" + e + "), so a restart begins a new watch";
        }
    }

    /** Read the metadata log to its end, and report this broker's new blocks. */
    private void readBlocks() {
        try {
            for (MetadataLog.Block block : metadataLog.read()) {
                if (watch.isNew(block)) {
                    reports.offer(new Reports.Report("block", block.timestampMs, new JsonFields()
                        .add("broker_epoch", block.brokerEpoch).add("first_producer_id", block.first)
                        .add("length", MetadataLog.BLOCK_LENGTH)));
                }
            }
            metadataProblem = null;
        } catch (IOException | RuntimeException e) {
            metadataProblem = "can't read the metadata log in " + settings.metadataLog + " (" + e + ")";
        }
    }

    private void write() {
        if (!writer.isReady()) {
            return;
        }
        if (!hasSaidStart) {
            begin();
        }
        List<PidMemory.Event> events = memory.take(MOST_EVENTS);
        for (EventRecord record : EventRecords.pack(
            events, settings.brokerId, writer.mostRecordBytes(), this::isLearning)) {
            writer.send(Topics.EVENTS, record.principal, record.value, isDelivered -> written(record, isDelivered));
        }
        for (Reports.Report report : reports.take(MOST_REPORTS)) {
            String value = report.value(settings.brokerId, writer.clusterId());
            writer.send(Topics.REPORTS, Integer.toString(settings.brokerId), value, isDelivered -> {
                if (!isDelivered && !report.type.equals("alive")) {
                    reports.offer(report);
                }
            });
        }
    }

    /** Begin the watch, now that this broker answers: its copy of the metadata log has all blocks from before. */
    private void begin() {
        readBlocks();
        if (!watch.hasBegun()) {
            watch.begin(metadataLog.nextProducerId(), System.currentTimeMillis());
        }
        save();
        problems.now(problem());
        reports.offer(new Reports.Report("start", startedMs, state()));
        hasSaidStart = true;
    }

    private boolean isLearning(PidMemory.Event event) {
        return watch.isLearning(event.entry.producerId, event.timestampMs);
    }

    private void written(EventRecord record, boolean isDelivered) {
        if (isDelivered) {
            delivered.addAndGet(record.events.size());
        } else if (record.events.size() == 1 && writer.isAtLeastSize()) {
            memory.dropped.incrementAndGet();
        } else {
            record.events.forEach(memory::undo);
        }
    }

    private JsonFields state() {
        JsonFields fields = new JsonFields().add("run", run)
            .add("plugin_version", Plugin.class.getPackage().getImplementationVersion())
            .add("kafka_version", AppInfoParser.getVersion()).add("repeat_ms", settings.repeatMs)
            .add("window_ms", settings.windowMs).add("next_producer_id", metadataLog.nextProducerId())
            .add("has_authorizer", settings.hasAuthorizer)
            .add("problem", problems.logged() == null ? HoldTopic.problem() : problems.logged());
        List<Integer> brokers = writer.brokers();
        if (!brokers.isEmpty()) {
            fields.add("cluster_brokers", brokers.size(), brokers::get);
        }
        return watch.addTo(ears.addTo(fields)).add("events", delivered.get()).add("dropped_events", memory.dropped.get())
            .add("waiting_pids", memory.waiting()).add("forgotten_pids", memory.forgotten.get());
    }
}

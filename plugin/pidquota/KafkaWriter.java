package pidquota;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Writes records with a producer of its own. A thread opens the clients, checks the topics and opens new clients after an
 * error of the login, such as an expired certificate. Until all is in place, {@link #isReady} is false.
 */
final class KafkaWriter {
    /** A part of the names of the threads of the plugin's clients. */
    static final String CLIENT_ID = "pid-quota-plugin";
    /** A failure is a problem if it lasts longer: a broker that starts does not answer itself yet. */
    private static final long PATIENCE_NS = 30_000_000_000L;
    /** After a failed write, the problem is over when no write has failed for this time. */
    private static final long QUIET_NS = 45_000_000_000L;
    private static final long CHECK_MS = 30_000;
    private static final long FIRST_PAUSE_MS = 250;
    private static final long LONGEST_PAUSE_MS = 5000;
    private static final long MOST_BYTES_IN_FLIGHT = 6L << 20;
    private static final long RECORD_BYTES = 200;
    private static final int MOST_RECORD_BYTES = 100_000;
    /** A record of this size has one event. */
    private static final int LEAST_RECORD_BYTES = 100;

    private volatile Settings settings;
    private final Runnable onReady;
    private final AtomicLong bytesInFlight = new AtomicLong();
    private final Thread thread = new Thread(this::run, CLIENT_ID + "-topics");

    private volatile Topics topics;
    private volatile KafkaProducer<byte[], byte[]> producer;
    private volatile boolean isReady;
    private volatile boolean isStopped;
    private volatile boolean needsNewClients;
    private volatile String notReady = "Kafka was not reached yet";
    private volatile long notReadySinceNs = System.nanoTime();
    private volatile String settingsProblem;
    private volatile int mostRecordBytes = MOST_RECORD_BYTES;
    private volatile String failure;
    private volatile long failingSinceNs;
    private volatile long failedNs;
    // Guarded by `this`.
    private boolean needsCheck;

    /** Create a writer. {@code onReady} runs in the writer's thread when writing has become possible. */
    KafkaWriter(Settings settings, Runnable onReady) {
        this.settings = settings;
        this.onReady = onReady;
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Whether records can be sent now. */
    boolean isReady() {
        return isReady && bytesInFlight.get() < MOST_BYTES_IN_FLIGHT;
    }

    /** Why records can't be written, or are written to a topic with wrong settings; null if all is well. */
    String problem() {
        long nowNs = System.nanoTime();
        String why = notReady;
        if (why != null && nowNs - notReadySinceNs > PATIENCE_NS) {
            return why;
        }
        why = failure;
        boolean isLasting = nowNs - failedNs < QUIET_NS && failedNs - failingSinceNs >= PATIENCE_NS;
        return why != null && isLasting ? why : settingsProblem;
    }

    /** Size of a record, at most. A topic that takes only smaller records halves it. */
    int mostRecordBytes() {
        return mostRecordBytes;
    }

    /** Whether no smaller record is possible, so that a record that is too large can't be written. */
    boolean isAtLeastSize() {
        return mostRecordBytes == LEAST_RECORD_BYTES;
    }

    /** Id of the cluster to which records go; null before the first answer. */
    String clusterId() {
        Topics asked = topics;
        return asked == null ? null : asked.clusterId();
    }

    List<Integer> brokers() {
        Topics asked = topics;
        return asked == null ? List.of() : asked.brokers();
    }

    /** Send a record. {@code done} gets whether the record was delivered, on any thread. */
    void send(String topic, String key, String value, Consumer<Boolean> done) {
        if (!isReady()) {
            // A record before this one has failed. To a topic that is gone, each would wait for its time limit.
            done.accept(false);
            return;
        }
        byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
        long size = bytes.length + RECORD_BYTES;
        bytesInFlight.addAndGet(size);
        try {
            producer.send(new ProducerRecord<>(topic, key.getBytes(StandardCharsets.UTF_8), bytes), (record, error) -> {
                bytesInFlight.addAndGet(-size);
                if (error != null) {
                    failed(topic, error);
                }
                done.accept(error == null);
            });
        } catch (RuntimeException e) {
            bytesInFlight.addAndGet(-size);
            failed(topic, e);
            done.accept(false);
        }
    }

    private void failed(String topic, Exception error) {
        if (isStopped) {
            return;
        }
        isReady = false;
        Topics asked = topics;
        long nowNs = System.nanoTime();
        boolean isTransient = error instanceof RetriableException && !(error instanceof TimeoutException);
        if (failure == null || nowNs - failedNs > QUIET_NS) {
            failingSinceNs = isTransient ? nowNs : nowNs - PATIENCE_NS;
        }
        failure = error instanceof AuthorizationException && asked != null ? asked.mayNot("write to", topic)
            : "can't write to topic " + topic + ": " + reason(error);
        failedNs = nowNs;
        needsNewClients |= error instanceof AuthenticationException;
        if (error instanceof InvalidMetadataException) {
            // The topic may be gone. Close the producer before it asks for metadata, which lets Kafka create the topic.
            needsNewClients = true;
            KafkaProducer<byte[], byte[]> old = producer;
            if (old != null) {
                old.close(Duration.ZERO);
            }
        }
        if (error instanceof RecordTooLargeException) {
            mostRecordBytes = Math.max(LEAST_RECORD_BYTES, mostRecordBytes / 2);
        }
        synchronized (this) {
            needsCheck = true;
            notifyAll();
        }
    }

    private static String reason(Throwable error) {
        String kind = error.getClass().getSimpleName();
        return error.getMessage() == null ? kind : kind + ": " + error.getMessage();
    }

    private void run() {
        long pauseMs = FIRST_PAUSE_MS;
        try {
            while (!isStopped) {
                boolean isGood = check();
                pauseMs = isGood ? FIRST_PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
                pause(isGood ? CHECK_MS : pauseMs, isGood);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private boolean check() throws InterruptedException {
        try {
            if (needsNewClients) {
                needsNewClients = false;
                closeClients();
            }
            openClients();
            topics.describeCluster();
            settingsProblem = topics.check();
            notReady = null;
            if (!isReady) {
                isReady = true;
                onReady.run();
            }
            return true;
        } catch (InterruptedException e) {
            throw e;
        } catch (Throwable e) {
            isReady = false;
            if (notReady == null) {
                notReadySinceNs = System.nanoTime();
            }
            notReady = e instanceof Topics.NotReadyException ? e.getMessage() : "can't reach Kafka: " + reason(e);
            needsNewClients |= e instanceof AuthenticationException;
            return false;
        }
    }

    /** Wait for the next check. A write that fails brings it forward, but not before {@code FIRST_PAUSE_MS}. */
    private void pause(long ms, boolean mayBeWoken) throws InterruptedException {
        if (mayBeWoken) {
            Thread.sleep(FIRST_PAUSE_MS);
        }
        synchronized (this) {
            if (!isStopped && !(mayBeWoken && needsCheck)) {
                wait(ms);
            }
            needsCheck = false;
        }
    }

    private void openClients() {
        if (topics != null && producer != null) {
            return;
        }
        String clientId = OwnTopics.newClientId(CLIENT_ID + "-" + settings.brokerId);
        if (topics == null) {
            KafkaLogin login = new KafkaLogin(settings);
            topics = new Topics(settings, login.admin(clientId), login.user());
        }
        if (producer == null) {
            producer = new KafkaProducer<>(new KafkaLogin(settings).producer(clientId));
        }
    }

    private void closeClients() {
        KafkaProducer<byte[], byte[]> old = producer;
        if (old != null) {
            producer = null;
            old.close(Duration.ZERO);
        }
        if (topics != null) {
            topics.close();
            topics = null;
        }
    }

    /** Open new clients, because properties of the login have changed. */
    void renew(Settings changed) {
        settings = changed;
        needsNewClients = true;
        synchronized (this) {
            needsCheck = true;
            notifyAll();
        }
    }

    /** Deliver what was sent, for at most {@code patience}, and close the clients. */
    void stop(Duration patience) {
        isStopped = true;
        isReady = false;
        thread.interrupt();
        KafkaProducer<byte[], byte[]> old = producer;
        if (old != null) {
            old.close(patience);
        }
        Topics asked = topics;
        if (asked != null) {
            asked.close();
        }
    }
}

package pidquota;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.slf4j.Logger;

/**
 * Follows the topic {@code pid-quota-holds} in a thread of its own. A hold counts from the moment this broker reads a new
 * record. A record from before the thread's start counts from Kafka's time of the record. If the topic is gone or was made
 * anew, nobody is held. If it can't be read, holds run out.
 */
final class HoldTopic {
    private static final TopicPartition PARTITION = new TopicPartition(Topics.HOLDS, 0);
    private static final long SECOND_NS = 1_000_000_000L;
    private static final long GATHER_NS = 20_000_000L;
    private static final long REPORT_EVERY_NS = 10 * SECOND_NS;
    /** A failure is a problem if it lasts longer: a broker that starts does not answer itself yet. */
    private static final long PATIENCE_NS = 30 * SECOND_NS;
    /** The authorizer may be loaded alone. */
    private static final long REPORTER_NS = 20 * SECOND_NS;
    /** A stream that may write holds says once a minute that it is alive, and in which version. */
    private static final String WRITER = "writer:";
    private static final String VERSION = "version";
    private static final long WRITER_ALIVE_NS = 150 * SECOND_NS;
    private static final long FIRST_PAUSE_MS = 250;
    private static final long LONGEST_PAUSE_MS = 5000;
    private static final Duration LONGEST_CALL = Duration.ofSeconds(10);

    private static volatile String problemNow;

    private final Settings settings;
    private final Holds holds;
    private final Transactions transactions;
    private final ProblemLog problems;
    private final Thread thread = new Thread(this::run, KafkaWriter.CLIENT_ID + "-holds");
    private volatile boolean isStopped;
    private volatile KafkaConsumer<byte[], byte[]> consumer;

    // Only the thread uses these.
    private Admin admin;
    private String clusterId;
    private KafkaFuture<TopicDescription> asked;
    private long askedNs = System.nanoTime() - SECOND_NS;
    private String topicProblem;
    private String writerVersion;
    private long writerNs;
    /** Id of the topic that the thread reads; null if there is none. */
    private Uuid topicId;
    /** Offset after the last record that was there when the thread began to read the topic. */
    private long oldEnd;
    private long position;
    private boolean isCaughtUp;
    private boolean isReportDue;
    private long reportedNs = askedNs;
    private long goodNs = askedNs;

    HoldTopic(Settings settings, Holds holds, Transactions transactions, Logger log) {
        this.settings = settings;
        this.holds = holds;
        this.transactions = transactions;
        problems = new ProblemLog(log);
        thread.setDaemon(true);
    }

    /** Why this process can't follow the topic; null if all is well. */
    static String problem() {
        return problemNow;
    }

    void start() {
        thread.start();
    }

    void stop() {
        isStopped = true;
        KafkaConsumer<byte[], byte[]> open = consumer;
        if (open != null) {
            open.wakeup();
        }
    }

    private void run() {
        awaitReporter();
        long pauseMs = FIRST_PAUSE_MS;
        while (!isStopped) {
            try {
                if (consumer == null) {
                    open();
                }
                lookAtTopic();
                read();
                publish();
                say(topicProblem != null ? topicProblem : versionProblem());
                pauseMs = FIRST_PAUSE_MS;
            } catch (Throwable e) {
                pauseMs = failed(e, pauseMs);
            }
        }
        close();
    }

    /** Wait for the Reporter: from then on, what the clients log while the broker starts stays out of its log. */
    private void awaitReporter() {
        long beganNs = System.nanoTime();
        while (!isStopped && !Reporter.isRunning() && System.nanoTime() - beganNs < REPORTER_NS) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(FIRST_PAUSE_MS));
        }
    }

    private void open() throws Exception {
        KafkaLogin login = new KafkaLogin(settings);
        String clientId = OwnTopics.newClientId(thread.getName() + "-" + settings.brokerId);
        admin = Admin.create(login.admin(clientId));
        clusterId = admin.describeCluster().clusterId().get();
        asked = null;
        KafkaConsumer<byte[], byte[]> opened = new KafkaConsumer<>(login.consumer(clientId));
        if (topicId != null) {
            opened.assign(List.of(PARTITION));
            opened.seek(PARTITION, position);
        }
        consumer = opened;
    }

    // Kafka 3 and 4.0 lack what replaces the deprecated method.
    @SuppressWarnings("deprecation")
    private void close() {
        KafkaConsumer<byte[], byte[]> oldConsumer = consumer;
        Admin oldAdmin = admin;
        consumer = null;
        admin = null;
        try {
            if (oldAdmin != null) {
                oldAdmin.close(Duration.ZERO);
            }
            if (oldConsumer != null) {
                oldConsumer.close(Duration.ZERO);
            }
        } catch (RuntimeException | LinkageError e) {
            // There are new clients soon, or the thread stops.
            asked = null;
        }
    }

    /** Open new clients after a pause, such as those that read a renewed certificate. Return the next pause. */
    private long failed(Throwable error, long pauseMs) {
        close();
        if (isStopped) {
            return pauseMs;
        }
        Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
        if (cause instanceof OffsetOutOfRangeException) {
            // The topic's log was cut: its rest is read as if it were another topic.
            release();
        }
        say(cause instanceof AuthorizationException
            ? "the brokers' own user may not read topic " + Topics.HOLDS + ": add it to super.users of each broker"
            : "can't read topic " + Topics.HOLDS + ", so holds run out: " + cause);
        publish();
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(pauseMs));
        return Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    }

    /** Ask once a second whether the topic is the one that the thread reads. The answer may take its time. */
    private void lookAtTopic() throws ExecutionException, InterruptedException {
        if (asked == null && System.nanoTime() - askedNs >= SECOND_NS) {
            askedNs = System.nanoTime();
            asked = admin.describeTopics(List.of(Topics.HOLDS)).topicNameValues().get(Topics.HOLDS);
        }
        if (asked == null || !asked.isDone()) {
            return;
        }
        KafkaFuture<TopicDescription> answer = asked;
        asked = null;
        try {
            TopicDescription topic = answer.get();
            boolean isSame = topic.topicId().equals(topicId);
            if (!isSame) {
                release();
            }
            Node leader = topic.partitions().get(0).leader();
            if (leader == null || leader.isEmpty()) {
                topicProblem = "topic " + Topics.HOLDS + " has no leader, so holds run out";
                return;
            }
            if (!isSame) {
                begin(topic.topicId());
            }
            topicProblem = transactions.find();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof UnknownTopicOrPartitionException)) {
                throw e;
            }
            topicProblem = "topic " + Topics.HOLDS + " is missing, so nobody is held: run `pid-quota topics create`";
            release();
        }
    }

    private void begin(Uuid id) {
        consumer.assign(List.of(PARTITION));
        oldEnd = consumer.endOffsets(List.of(PARTITION), LONGEST_CALL).get(PARTITION);
        consumer.seekToBeginning(List.of(PARTITION));
        position = 0;
        isCaughtUp = false;
        topicId = id;
    }

    private void release() {
        if (topicId != null) {
            topicId = null;
            holds.clear(System.currentTimeMillis());
            isReportDue = true;
            publish();
        }
    }

    private void read() {
        if (topicId == null) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(FIRST_PAUSE_MS));
            return;
        }
        long mostNs = isReportDue ? GATHER_NS : SECOND_NS / 2;
        long waitNs = isCaughtUp ? holds.leftNs(System.nanoTime(), mostNs) : mostNs;
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofNanos(waitNs));
        long nowNs = System.nanoTime();
        long nowMs = System.currentTimeMillis();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            obey(each, nowNs, nowMs);
            position = each.offset() + 1;
            isReportDue = true;
        }
        if (!isCaughtUp && consumer.position(PARTITION, LONGEST_CALL) >= oldEnd) {
            isCaughtUp = true;
            isReportDue = true;
        }
    }

    private void obey(ConsumerRecord<byte[], byte[]> each, long nowNs, long nowMs) {
        if (HoldRecord.keyText(each.key()).startsWith(WRITER)) {
            Header version = each.headers().lastHeader(VERSION);
            long ageNs = TimeUnit.MILLISECONDS.toNanos(Math.max(0, nowMs - each.timestamp()));
            if (version != null && version.value() != null && ageNs < WRITER_ALIVE_NS) {
                writerVersion = Text.cut(HoldRecord.keyText(version.value()), Text.MAX_ID);
                writerNs = nowNs - ageNs;
            }
            return;
        }
        try {
            HoldRecord record = new HoldRecord(each.key(), each.value(), clusterId);
            boolean isOld = each.offset() < oldEnd;
            long leftMs = isOld ? each.timestamp() + record.durationMs - nowMs : record.durationMs;
            holds.obey(record, Math.min(leftMs, record.durationMs), nowNs, nowMs);
        } catch (RuntimeException | StackOverflowError e) {
            holds.ignore(Text.cut(HoldRecord.keyText(each.key()), Text.MAX_ID) + ": " + e.getMessage());
        }
    }

    /** That pid-quota itself has another version than this plugin; null if it has not, or if it does not run. */
    private String versionProblem() {
        String own = HoldTopic.class.getPackage().getImplementationVersion();
        boolean isAlive = writerVersion != null && System.nanoTime() - writerNs < WRITER_ALIVE_NS;
        return !isAlive || writerVersion.equals(own) ? null : "this plugin is version " + own + ", and `pid-quota run` is "
            + writerVersion + ": copy the jar of `pid-quota broker-jar` to this broker, and restart it";
    }

    /** Put in force what was read, and report it. */
    private void publish() {
        long nowNs = System.nanoTime();
        if (isCaughtUp || topicId == null) {
            isReportDue |= holds.update(nowNs, System.currentTimeMillis());
        }
        if (nowNs - reportedNs >= (isReportDue ? GATHER_NS : REPORT_EVERY_NS) && (isReportDue || holds.areAny())) {
            reportedNs = nowNs;
            isReportDue = false;
            Reporter.report("hold", holds.report(position - 1));
        }
    }

    private void say(String problem) {
        long nowNs = System.nanoTime();
        if (problem == null) {
            goodNs = nowNs;
        }
        problemNow = nowNs - goodNs > PATIENCE_NS ? problem : null;
        problems.now(problemNow);
    }
}

package pidquota;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Checks the plugin's three topics, and creates a missing topic. The producer must not meet a missing topic: its request for
 * metadata would let Kafka create the topic with the cluster's settings. If Kafka has done so, the topic has no settings
 * of its own, and gets ours.
 */
final class Topics {
    static final String EVENTS = "produce-events";
    static final String REPORTS = "pid-quota-reports";
    static final String HOLDS = "pid-quota-holds";

    private static final String POLICY = "cleanup.policy";
    /** The settings that nobody may choose otherwise. */
    private static final Set<String> CHECKED = Set.of(POLICY, "message.timestamp.type");
    private static final int MOST_TRIES = 50;
    private static final long PAUSE_MS = 100;

    private final Settings settings;
    private final Admin admin;
    private final String user;

    // The newest answers.
    private volatile String clusterId;
    private volatile List<Integer> brokers = List.of();

    /** Create an admin client with these properties. {@code user} is the name in its login; it may be empty. */
    Topics(Settings settings, Map<String, Object> properties, String user) {
        this.settings = settings;
        admin = Admin.create(properties);
        this.user = user;
    }

    /** Id of the cluster that the plugin writes to; null before the first answer. */
    String clusterId() {
        return clusterId;
    }

    /** Ids of the cluster's running brokers. */
    List<Integer> brokers() {
        return brokers;
    }

    /** Ask the cluster for its id and its brokers. Throws Kafka's exceptions. */
    void describeCluster() throws InterruptedException {
        DescribeClusterResult answer = admin.describeCluster();
        clusterId = get(answer.clusterId());
        List<Integer> found = new ArrayList<>();
        Collection<Node> nodes = get(answer.nodes());
        nodes.forEach(node -> found.add(node.id()));
        brokers = found;
    }

    /**
     * Create missing topics, and mend or report wrong settings. Return a problem that does not keep the plugin from
     * writing, or null. Throws {@link NotReadyException} while the plugin can't write.
     */
    String check() throws InterruptedException {
        Map<String, Integer> partitions = new LinkedHashMap<>();
        partitions.put(EVENTS, settings.partitions);
        // One partition keeps records in order.
        partitions.put(REPORTS, 1);
        partitions.put(HOLDS, 1);
        for (Map.Entry<String, Integer> each : partitions.entrySet()) {
            if (!exists(each.getKey())) {
                create(each.getKey(), each.getValue());
            }
        }
        List<String> problems = new ArrayList<>();
        for (Map.Entry<String, Integer> each : partitions.entrySet()) {
            checkSettings(each.getKey(), each.getValue(), problems);
        }
        int found = get(admin.describeTopics(List.of(HOLDS)).allTopicNames()).get(HOLDS).partitions().size();
        if (found > 1) {
            problems.add("topic " + HOLDS + " has " + found + " partitions, and only partition 0 counts: delete the topic, which "
                + "releases everybody for a moment");
        }
        return problems.isEmpty() ? null : String.join("; ", problems);
    }

    /** Settings of a topic. The stream compares events with Kafka's time, and compaction would delete events. */
    private static Map<String, String> settingsOf(String topic) {
        return new TreeMap<>(Map.of(POLICY, topic.equals(HOLDS) ? "compact,delete" : "delete",
            "message.timestamp.type", "LogAppendTime", "retention.ms", "604800000"));
    }

    private boolean exists(String topic) throws InterruptedException {
        try {
            get(admin.describeTopics(List.of(topic)).allTopicNames());
            return true;
        } catch (UnknownTopicOrPartitionException e) {
            return false;
        } catch (AuthorizationException e) {
            throw new NotReadyException(mayNot("describe", topic));
        }
    }

    private void create(String topic, int partitions) throws InterruptedException {
        if (!settings.createsTopics) {
            throw new NotReadyException("topic " + topic + " is missing, and pid.quota.create.topics is false: run "
                + "`pid-quota topics create`");
        }
        NewTopic wanted = new NewTopic(topic, Optional.of(partitions), Optional.empty()).configs(settingsOf(topic));
        try {
            get(admin.createTopics(List.of(wanted)).all());
        } catch (TopicExistsException e) {
            // Another broker's plugin has created it.
        } catch (InvalidReplicationFactorException e) {
            throw new NotReadyException("topic " + topic + " can't be created yet, because too few brokers are up for the "
                + "cluster's default.replication.factor");
        } catch (AuthorizationException e) {
            throw new NotReadyException(mayNot("create", topic));
        }
        // The controller answers before all brokers know the topic.
        for (int tries = 0; !exists(topic); tries++) {
            if (tries == MOST_TRIES) {
                throw new NotReadyException("topic " + topic + " was created, but no broker shows it");
            }
            Thread.sleep(PAUSE_MS);
        }
    }

    private void checkSettings(String topic, int partitions, List<String> problems) throws InterruptedException {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config found;
        try {
            Map<ConfigResource, Config> answers = get(admin.describeConfigs(List.of(resource)).all());
            found = answers.get(resource);
        } catch (AuthorizationException e) {
            // Without the right to read settings, only a reader of the topic notices wrong ones.
            return;
        }
        // If nobody chose a setting, Kafka has created the topic by itself.
        Map<String, String> wanted = settingsOf(topic);
        boolean isByItself = wanted.keySet().stream().noneMatch(name -> isChosen(found.get(name)));
        List<AlterConfigOp> ours = new ArrayList<>();
        wanted.forEach((name, value) -> {
            ConfigEntry entry = found.get(name);
            boolean isWrong = CHECKED.contains(name) && entry != null && !isSame(value, entry.value());
            if (settings.createsTopics && (isByItself || isWrong && !isChosen(entry))) {
                ours.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET));
            } else if (isWrong) {
                problems.add(wrong(topic, name, entry.value(), value));
            }
        });
        if (!ours.isEmpty()) {
            mend(resource, ours, isByItself ? partitions : 0);
        }
    }

    /** Whether two lists have the same items, in any order. */
    private static boolean isSame(String wanted, String found) {
        return found != null && Set.of(wanted.split(",")).equals(new TreeSet<>(List.of(found.trim().split("\\s*,\\s*"))));
    }

    private static boolean isChosen(ConfigEntry entry) {
        return entry != null && entry.source() == ConfigSource.DYNAMIC_TOPIC_CONFIG;
    }

    private void mend(ConfigResource topic, List<AlterConfigOp> ours, int partitions) throws InterruptedException {
        try {
            get(admin.incrementalAlterConfigs(Map.of(topic, ours)).all());
            if (partitions > 0) {
                get(admin.createPartitions(Map.of(topic.name(), NewPartitions.increaseTo(partitions))).all());
            }
        } catch (AuthorizationException e) {
            throw new NotReadyException(mayNot("alter", topic.name()));
        } catch (InvalidPartitionsException e) {
            // The topic has as many partitions, or more.
        }
    }

    private static String wrong(String topic, String name, String found, String wanted) {
        return "topic " + topic + " has " + name + "=" + found + ", not " + wanted + ": run kafka-configs.sh --alter "
            + "--entity-type topics --entity-name " + topic + " --add-config " + name + "=" + (wanted.contains(",") ? "[" + wanted + "]" : wanted);
    }

    /** Say that a right is missing, and how to grant all rights that the plugin needs. */
    String mayNot(String what, String topic) {
        String problem = "the brokers' own user " + (user.isEmpty() ? "" : user + " ") + "may not " + what + " topic " + topic;
        if (settings.hasAuthorizer) {
            // No ACL grants WRITE on the plugin's topics.
            return problem + ": add 'User:" + (user.isEmpty() ? "…" : user) + "' to super.users of each broker";
        }
        return problem + ": make it a super user, or run kafka-acls.sh --add --allow-principal 'User:" + (user.isEmpty() ? "…" : user)
            + "' --operation Describe --operation Write --operation Create --operation DescribeConfigs --operation Alter "
            + "--operation AlterConfigs --topic " + EVENTS + " --topic " + REPORTS
            + " --topic " + HOLDS;
    }

    void close() {
        admin.close(Duration.ZERO);
    }

    private static <T> T get(KafkaFuture<T> answer) throws InterruptedException {
        try {
            return answer.get();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof RuntimeException) {
                throw (RuntimeException) e.getCause();
            }
            throw new IllegalStateException(e.getCause());
        }
    }

    /** The plugin can't write yet; the message says why. */
    static final class NotReadyException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        NotReadyException(String message) {
            super(message);
        }
    }
}

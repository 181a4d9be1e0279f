package pidquota;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Checks the plugin's two topics, and creates a missing topic. The producer must not meet a missing topic: its request for
 * metadata would let Kafka create the topic with the cluster's settings. If Kafka has done so, the topic has no settings
 * of its own, and gets ours.
 */
final class Topics {
    static final String EVENTS = "produce-events";
    static final String REPORTS = "pid-quota-reports";

    /** Settings of both topics. The stream compares events with Kafka's time, and compaction would delete events. */
    private static final Map<String, String> CHECKED = Map.of(
        "message.timestamp.type", "LogAppendTime", "cleanup.policy", "delete");
    private static final int MOST_TRIES = 50;
    private static final long PAUSE_MS = 100;
    private static final String RETENTION_MS = "604800000";

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
        // One partition keeps the reports of all brokers in order.
        partitions.put(REPORTS, 1);
        for (Map.Entry<String, Integer> each : partitions.entrySet()) {
            if (!exists(each.getKey())) {
                create(each.getKey(), each.getValue());
            }
        }
        String problem = null;
        for (String topic : partitions.keySet()) {
            String found = checkSettings(topic);
            problem = problem == null ? found : problem;
        }
        return problem;
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
        NewTopic wanted = new NewTopic(topic, Optional.of(partitions), Optional.empty()).configs(Map.of(
            "message.timestamp.type", "LogAppendTime", "cleanup.policy", "delete", "retention.ms", RETENTION_MS));
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

    private String checkSettings(String topic) throws InterruptedException {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config found;
        try {
            Map<ConfigResource, Config> answers = get(admin.describeConfigs(List.of(resource)).all());
            found = answers.get(resource);
        } catch (AuthorizationException e) {
            // Without the right to read settings, only a reader of the topic notices wrong ones.
            return null;
        }
        List<AlterConfigOp> ours = new ArrayList<>();
        String problem = null;
        for (Map.Entry<String, String> each : CHECKED.entrySet()) {
            ConfigEntry entry = found.get(each.getKey());
            if (entry == null || each.getValue().equals(entry.value())) {
                continue;
            }
            if (entry.source() != ConfigSource.DYNAMIC_TOPIC_CONFIG && settings.createsTopics) {
                ours.add(new AlterConfigOp(new ConfigEntry(each.getKey(), each.getValue()), AlterConfigOp.OpType.SET));
            } else {
                problem = wrong(topic, each.getKey(), entry.value(), each.getValue());
            }
        }
        return ours.isEmpty() ? problem : alter(resource, ours, problem);
    }

    private String alter(ConfigResource resource, List<AlterConfigOp> ours, String problem) throws InterruptedException {
        try {
            get(admin.incrementalAlterConfigs(Map.of(resource, ours)).all());
            return problem;
        } catch (AuthorizationException e) {
            ConfigEntry first = ours.get(0).configEntry();
            return wrong(resource.name(), first.name(), "the cluster's default", first.value());
        }
    }

    private static String wrong(String topic, String name, String found, String wanted) {
        return "topic " + topic + " has " + name + "=" + found + ", not " + wanted + ": run kafka-configs.sh --alter "
            + "--entity-type topics --entity-name " + topic + " --add-config " + name + "=" + wanted;
    }

    /** Say that a right is missing, with a command that grants all rights that the plugin needs. */
    String mayNot(String what, String topic) {
        return "the brokers' own user " + (user.isEmpty() ? "" : user + " ") + "may not " + what + " topic " + topic
            + ": make it a super user, or run kafka-acls.sh --add --allow-principal 'User:" + (user.isEmpty() ? "…" : user)
            + "' --operation Describe --operation Write --operation Create --operation DescribeConfigs --operation "
            + "AlterConfigs --topic " + EVENTS + " --topic " + REPORTS;
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

package pidquota;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;

import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Client properties for the listener, protocol and login that the broker uses between brokers. Kafka looks properties
 * up as {@code listener.name.<listener>.<mechanism>.<name>}, then {@code listener.name.<listener>.<name>}, then
 * {@code <name>}. The properties {@code pid.quota.producer.*} override the result.
 */
final class KafkaLogin {
    private static final String OVERRIDES = Settings.PREFIX + "producer.";
    private static final String PROTOCOL = "security.protocol";
    private static final String SERVERS = "bootstrap.servers";
    private static final String DAY_MS = "86400000";
    private static final Pattern ENDPOINT = Pattern.compile("([^:/]+)://(\\[[^\\]]*\\]|[^:]*):(\\d+)");
    private static final Pattern USER = Pattern.compile("\\busername\\s*=\\s*\"([^\"]*)\"");
    /** A login module of each mechanism, for a JAAS file's section with several modules. */
    private static final Map<String, String> MODULES = Map.of(
        "PLAIN", "PlainLoginModule", "SCRAM-SHA-256", "ScramLoginModule", "SCRAM-SHA-512", "ScramLoginModule",
        "GSSAPI", "Krb5LoginModule", "OAUTHBEARER", "OAuthBearerLoginModule");

    private final Settings settings;
    private final String listener;
    private final String protocol;

    /** Throws Kafka's {@link ConfigException} if the broker's properties name no listener between brokers. */
    KafkaLogin(Settings settings) {
        this.settings = settings;
        String named = settings.text("inter.broker.listener.name", "");
        listener = (named.isEmpty() ? settings.text("security.inter.broker.protocol", "PLAINTEXT") : named)
            .toUpperCase(Locale.ROOT);
        protocol = protocolOf(listener);
    }

    /** The prefix of the listener's own properties. */
    String prefix() {
        return "listener.name." + listener.toLowerCase(Locale.ROOT) + ".";
    }

    /** Name of the user in the login; empty if only the broker knows it, such as that of a certificate. */
    String user() {
        Object jaas = admin("").get("sasl.jaas.config");
        String text = jaas instanceof Password ? ((Password) jaas).value() : String.valueOf(jaas);
        Matcher name = USER.matcher(text);
        return name.find() ? name.group(1) : "";
    }

    /** Properties of the plugin's producer. */
    Map<String, Object> producer(String clientId) {
        Map<String, Object> found = login(ProducerConfig.configNames());
        // The plugin's own writes make no producer ids.
        found.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, "false");
        found.put(ProducerConfig.ACKS_CONFIG, "all");
        found.put(ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, "1");
        // The plugin repeats a failed write itself. The producer would refresh its metadata before it repeats a write to a
        // topic that is gone, and that request lets Kafka create the topic. So would a refresh by time.
        found.put(ProducerConfig.RETRIES_CONFIG, "0");
        found.put(ProducerConfig.METADATA_MAX_AGE_CONFIG, DAY_MS);
        found.put(ProducerConfig.METADATA_MAX_IDLE_CONFIG, DAY_MS);
        found.put(ProducerConfig.LINGER_MS_CONFIG, "5");
        found.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, "lz4");
        found.put(ProducerConfig.BUFFER_MEMORY_CONFIG, Integer.toString(8 << 20));
        found.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, "500");
        found.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, "10000");
        found.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, "30000");
        found.put("enable.metrics.push", "false");
        found.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        found.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        return overridden(found, clientId, ProducerConfig.configNames());
    }

    /** Properties of the plugin's admin client. */
    Map<String, Object> admin(String clientId) {
        Map<String, Object> found = login(AdminClientConfig.configNames());
        found.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, "5000");
        found.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, "10000");
        // A client that begins anew by itself does so hundreds of times a second while its broker starts. Kafka 3.7 can't.
        found.put("metadata.recovery.strategy", "none");
        found.put("enable.metrics.push", "false");
        return overridden(found, clientId, AdminClientConfig.configNames());
    }

    /** Properties of the consumer that follows the topic of holds. It belongs to no group. */
    Map<String, Object> consumer(String clientId) {
        Map<String, Object> found = login(ConsumerConfig.configNames());
        found.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        found.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false");
        // A cut log is an error, after which the follower reads the topic anew.
        found.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        found.put(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, Integer.toString(1 << 20));
        found.put(ConsumerConfig.REQUEST_TIMEOUT_MS_CONFIG, "10000");
        found.put("enable.metrics.push", "false");
        found.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        found.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        return overridden(found, clientId, ConsumerConfig.configNames());
    }

    private Map<String, Object> overridden(Map<String, Object> found, String clientId, Set<String> names) {
        settings.configs().forEach((name, value) -> {
            String own = name.startsWith(OVERRIDES) ? name.substring(OVERRIDES.length()) : "";
            if (names.contains(own) && value != null) {
                found.put(own, value);
            }
        });
        found.put("client.id", clientId);
        return found;
    }

    private Map<String, Object> login(Set<String> names) {
        Map<String, Object> found = new HashMap<>();
        if (!settings.configs().containsKey(OVERRIDES + SERVERS)) {
            found.put(SERVERS, endpoint());
        }
        if (settings.configs().containsKey(OVERRIDES + PROTOCOL)) {
            // Another login, in whole.
            return found;
        }
        found.put(PROTOCOL, protocol);
        String mechanism = settings.text("sasl.mechanism.inter.broker.protocol", "GSSAPI");
        String ofMechanism = prefix() + mechanism.toLowerCase(Locale.ROOT) + ".";
        for (String name : names) {
            boolean isSasl = name.startsWith("sasl.") && protocol.startsWith("SASL_");
            boolean isSsl = name.startsWith("ssl.") && protocol.endsWith("SSL");
            if (isSasl || isSsl || name.equals("security.providers")) {
                Object value = first(isSasl ? ofMechanism + name : prefix() + name, prefix() + name, name);
                if (value != null) {
                    found.put(name, value);
                }
            }
        }
        if (protocol.startsWith("SASL_")) {
            found.put("sasl.mechanism", mechanism);
            Object own = settings.configs().get(ofMechanism + "sasl.jaas.config");
            found.put("sasl.jaas.config", own == null ? jaasFile(mechanism) : own);
        }
        return found;
    }

    private Object first(String... names) {
        for (String name : names) {
            if (settings.configs().get(name) != null) {
                return settings.configs().get(name);
            }
        }
        return null;
    }

    private String protocolOf(String name) {
        for (String pair : settings.text("listener.security.protocol.map", "").split(",")) {
            int colon = pair.lastIndexOf(':');
            if (colon > 0 && pair.substring(0, colon).trim().equalsIgnoreCase(name)) {
                return pair.substring(colon + 1).trim().toUpperCase(Locale.ROOT);
            }
        }
        return name;
    }

    /** Host and port that the broker advertises to other brokers. */
    private String endpoint() {
        String listeners = settings.text("listeners", "PLAINTEXT://:9092");
        for (String each : (settings.text("advertised.listeners", listeners) + "," + listeners).split(",")) {
            Matcher parts = ENDPOINT.matcher(each.trim());
            if (parts.matches() && parts.group(1).equalsIgnoreCase(listener)) {
                String host = parts.group(2);
                return (host.isEmpty() || host.equals("0.0.0.0") ? localHost() : host) + ":" + parts.group(3);
            }
        }
        throw new ConfigException("no listener " + listener + " in advertised.listeners or listeners");
    }

    private static String localHost() {
        try {
            // As Kafka does for a listener without a host.
            return InetAddress.getLocalHost().getCanonicalHostName();
        } catch (UnknownHostException e) {
            return "localhost";
        }
    }

    /** The login in the section {@code <listener>.KafkaServer} or {@code KafkaServer} of the JVM's JAAS file. */
    private String jaasFile(String mechanism) {
        String module = MODULES.getOrDefault(mechanism, "");
        for (String section : new String[] {listener.toLowerCase(Locale.ROOT) + ".KafkaServer", "KafkaServer"}) {
            AppConfigurationEntry[] entries = section(section);
            for (AppConfigurationEntry entry : entries) {
                if (entries.length == 1 || entry.getLoginModuleName().endsWith(module)) {
                    return text(entry);
                }
            }
        }
        throw new ConfigException("no login of " + mechanism + " between brokers: neither in the broker's properties, nor in "
            + "the section KafkaServer of a JAAS file");
    }

    private static AppConfigurationEntry[] section(String name) {
        try {
            AppConfigurationEntry[] entries = Configuration.getConfiguration().getAppConfigurationEntry(name);
            return entries == null ? new AppConfigurationEntry[0] : entries;
        } catch (SecurityException e) {
            // The JVM has no JAAS file, or can't read it.
            return new AppConfigurationEntry[0];
        }
    }

    private static String text(AppConfigurationEntry entry) {
        // Java's text of the flag is such as "LoginModuleControlFlag: required".
        String flag = entry.getControlFlag().toString().replaceFirst(".*: ", "");
        StringBuilder text = new StringBuilder(entry.getLoginModuleName()).append(' ').append(flag);
        entry.getOptions().forEach((name, value) -> text.append(' ').append(name).append("=\"")
            .append(value.toString().replace("\\", "\\\\").replace("\"", "\\\"")).append('"'));
        return text.append(';').toString();
    }
}

package pidquota;

import java.io.IOException;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.stream.Collectors;

import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.Reconfigurable;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.common.metrics.KafkaMetricsContext;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.metadata.authorizer.ClusterMetadataAuthorizer;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/**
 * Any authorizer, or none, with the holds of the topic {@code pid-quota-holds} (docs/plugin.md). The property {@code
 * pid.quota.authorizer.class.name} names the authorizer. Without it, everybody may do everything.
 */
public class HoldAnyAuthorizer implements Authorizer, Reconfigurable {
    private static final String NAME = Settings.PREFIX + "authorizer.class.name";

    private Authorizer behind;
    private OwnTopics.AskAcls acls = (context, actions) -> Collections.nCopies(actions.size(), AuthorizationResult.ALLOWED);
    private HoldGate gate;
    /** Metrics of the authorizer behind; null if it has none. */
    private Metrics metrics;

    @Override
    public void configure(Map<String, ?> configs) {
        Object name = configs.get(NAME);
        if (name != null && !name.toString().isBlank()) {
            behind = authorizer(name.toString().trim());
            behind.configure(configs);
            giveMetrics(behind);
            acls = behind::authorize;
        }
        gate = HoldGate.open(configs, behind != null);
    }

    private static Authorizer authorizer(String name) {
        Authorizer found;
        try {
            found = Utils.newInstance(name, Authorizer.class);
        } catch (ClassNotFoundException e) {
            throw new ConfigException(NAME, name, "is not on the class path");
        }
        if (found instanceof ClusterMetadataAuthorizer || found instanceof HoldAnyAuthorizer) {
            // Kafka gives ACLs only to the authorizer that it has loaded itself.
            throw new ConfigException(NAME, name, "has Kafka's own ACLs: set authorizer.class.name="
                + HoldAuthorizer.class.getName() + ", and remove " + NAME);
        }
        return found;
    }

    /** Give the authorizer metrics (KIP-877). Kafka gives them only to the authorizer that it has loaded itself. */
    @SuppressWarnings("resource")
    private void giveMetrics(Authorizer to) {
        try {
            Class<?> monitorable = Class.forName("org.apache.kafka.common.metrics.Monitorable");
            if (monitorable.isInstance(to)) {
                metrics = new Metrics(
                    new MetricConfig(), List.of(new JmxReporter()), Time.SYSTEM, new KafkaMetricsContext("kafka.server"));
                Object given = Class.forName("org.apache.kafka.common.metrics.internals.PluginMetricsImpl")
                    .getConstructor(Metrics.class, Map.class)
                    .newInstance(metrics, Map.of("config", NAME, "class", to.getClass().getSimpleName()));
                monitorable.getMethod("withPluginMetrics", Class.forName("org.apache.kafka.common.metrics.PluginMetrics"))
                    .invoke(to, given);
            }
        } catch (ClassNotFoundException e) {
            // Before 4.1, Kafka has no such metrics.
            return;
        } catch (ReflectiveOperationException e) {
            throw new ConfigException(NAME, to.getClass().getName(), "can't get metrics: " + e);
        }
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo serverInfo) {
        gate.start();
        return behind != null ? behind.start(serverInfo) : serverInfo.endpoints().stream()
            .collect(Collectors.toMap(each -> each, each -> CompletableFuture.<Void>completedFuture(null)));
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        return gate.authorize(acls, context, actions);
    }

    @Override
    public AuthorizationResult authorizeByResourceType(
        AuthorizableRequestContext context, AclOperation operation, ResourceType type) {
        AuthorizationResult result = behind == null ? AuthorizationResult.ALLOWED
            : behind.authorizeByResourceType(context, operation, type);
        return gate.authorizeByResourceType(result, context);
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(
        AuthorizableRequestContext context, List<AclBinding> bindings) {
        return behind != null ? behind.createAcls(context, bindings) : Collections.nCopies(
            bindings.size(), CompletableFuture.completedFuture(new AclCreateResult(noAcls())));
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
        AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        return behind != null ? behind.deleteAcls(context, filters) : Collections.nCopies(
            filters.size(), CompletableFuture.completedFuture(new AclDeleteResult(noAcls())));
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        if (behind == null) {
            throw noAcls();
        }
        return behind.acls(filter);
    }

    /** Kafka's answer on a cluster without an authorizer. */
    private static SecurityDisabledException noAcls() {
        return new SecurityDisabledException("No Authorizer is configured.");
    }

    @Override
    public int aclCount() {
        return behind == null ? -1 : behind.aclCount();
    }

    @Override
    public Set<String> reconfigurableConfigs() {
        return behind instanceof Reconfigurable ? ((Reconfigurable) behind).reconfigurableConfigs() : Set.of();
    }

    @Override
    public void validateReconfiguration(Map<String, ?> configs) {
        if (behind instanceof Reconfigurable) {
            ((Reconfigurable) behind).validateReconfiguration(configs);
        }
    }

    @Override
    public void reconfigure(Map<String, ?> configs) {
        if (behind instanceof Reconfigurable) {
            ((Reconfigurable) behind).reconfigure(configs);
        }
    }

    @Override
    public void close() throws IOException {
        HoldGate.close();
        if (behind != null) {
            behind.close();
        }
        if (metrics != null) {
            metrics.close();
        }
    }
}

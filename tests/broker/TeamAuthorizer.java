import java.io.IOException;
import java.util.LinkedHashMap;
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
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Measurable;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/**
 * An authorizer that is not Kafka's, for `HoldAnyAuthorizer`: admin and the anonymous brokers may do everything; alice and
 * mallory may use topics that do not begin with `secret`, without a right on the cluster; mallory may use no transactional id.
 */
public class TeamAuthorizer implements Authorizer, Reconfigurable, Monitorable {
    private volatile String secret = "secret";
    private PluginMetrics metrics;

    @Override
    public void withPluginMetrics(PluginMetrics given) {
        metrics = given;
        MetricName name = metrics.metricName("secrets", "A constant.", new LinkedHashMap<>());
        metrics.addMetric(name, (Measurable) (config, now) -> 1);
    }

    @Override
    public void configure(Map<String, ?> configs) {
        if (configs.get("team.secret") != null) {
            secret = configs.get("team.secret").toString();
        }
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo info) {
        return info.endpoints().stream().collect(Collectors.toMap(each -> each, each -> CompletableFuture.completedFuture(null)));
    }

    private AuthorizationResult one(AuthorizableRequestContext context, AclOperation operation, ResourceType type, String name) {
        // Like Kafka's own authorizer, it can't do without metrics.
        metrics.getClass();
        String user = context.principal().getName();
        boolean isOurs = user.equals("admin") || user.equals("ANONYMOUS");
        boolean mayUse = type == ResourceType.TOPIC && !name.startsWith(secret)
            || type == ResourceType.TRANSACTIONAL_ID && !user.equals("mallory");
        return isOurs || mayUse ? AuthorizationResult.ALLOWED : AuthorizationResult.DENIED;
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        return actions.stream().map(each -> one(context, each.operation(), each.resourcePattern().resourceType(),
            each.resourcePattern().name())).collect(Collectors.toList());
    }

    @Override
    public AuthorizationResult authorizeByResourceType(AuthorizableRequestContext context, AclOperation operation, ResourceType type) {
        return one(context, operation, type, "any");
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(AuthorizableRequestContext context, List<AclBinding> bindings) {
        throw new UnsupportedOperationException("a team has no ACLs");
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        throw new UnsupportedOperationException("a team has no ACLs");
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        return List.of();
    }

    @Override
    public Set<String> reconfigurableConfigs() {
        return Set.of("team.secret");
    }

    @Override
    public void validateReconfiguration(Map<String, ?> configs) {
        // Any prefix will do.
    }

    @Override
    public void reconfigure(Map<String, ?> configs) {
        configure(configs);
    }

    @Override
    public void close() throws IOException {
        // Nothing is open.
    }
}

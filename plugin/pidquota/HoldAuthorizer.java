package pidquota;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;

import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/** Kafka's own authorizer with the holds of the topic {@code pid-quota-holds} (docs/plugin.md). */
public class HoldAuthorizer extends StandardAuthorizer {
    private final OwnTopics.AskAcls acls = super::authorize;
    private HoldGate gate;

    @Override
    public void configure(Map<String, ?> configs) {
        super.configure(configs);
        gate = HoldGate.open(configs, true);
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo serverInfo) {
        gate.start();
        return super.start(serverInfo);
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        return gate.authorize(acls, context, actions);
    }

    @Override
    public AuthorizationResult authorizeByResourceType(
        AuthorizableRequestContext context, AclOperation operation, ResourceType type) {
        return gate.authorizeByResourceType(super.authorizeByResourceType(context, operation, type), context);
    }

    @Override
    public void close() throws IOException {
        HoldGate.close();
        super.close();
    }
}

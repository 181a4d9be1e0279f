package pidquota;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.Resource;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Who may use the plugin's topics. Brokers may do everything with them. Writers may read them, and write to
 * {@link Topics#HOLDS}. Nobody else may write. So {@code pid-quota run} needs no ACL if its user is a writer.
 *
 * <p>A broker is a super user, the user of this process's own clients, or, if ACLs say so, whoever may do what followers
 * of partitions do (CLUSTER_ACTION).
 */
final class OwnTopics {
    private static final Set<AclOperation> OF_READERS = Set.of(AclOperation.DESCRIBE, AclOperation.READ);
    private static final String GROUP = "pid-quota";
    private static final List<Action> CLUSTER_ACTION = List.of(new Action(AclOperation.CLUSTER_ACTION,
        new ResourcePattern(ResourceType.CLUSTER, Resource.CLUSTER_NAME, PatternType.LITERAL), 1, false, false));
    private static final int MAX_CLIENT_IDS = 64;
    /** Ids of own clients that have sent no request yet. Nobody else can know them. Guarded by itself. */
    private static final Set<String> CLIENT_IDS = new LinkedHashSet<>();

    private final Set<String> superUsers;
    private final Set<String> writers;
    private final boolean isClusterActionForBrokers;
    private final Set<String> own = ConcurrentHashMap.newKeySet();

    OwnTopics(Set<String> superUsers, Set<String> writers, boolean isClusterActionForBrokers) {
        this.superUsers = superUsers;
        this.writers = writers;
        this.isClusterActionForBrokers = isClusterActionForBrokers;
    }

    /** Return an id for an own client. This broker learns by its first request which user the client is. */
    static String newClientId(String prefix) {
        String id = prefix + "-" + UUID.randomUUID();
        synchronized (CLIENT_IDS) {
            if (CLIENT_IDS.size() >= MAX_CLIENT_IDS) {
                CLIENT_IDS.remove(CLIENT_IDS.iterator().next());
            }
            CLIENT_IDS.add(id);
        }
        return id;
    }

    static boolean isOneOf(List<Action> actions) {
        for (int i = 0; i < actions.size(); i++) {
            if (isOne(actions.get(i).resourcePattern())) {
                return true;
            }
        }
        return false;
    }

    private static boolean isOne(ResourcePattern resource) {
        return resource.resourceType() == ResourceType.TOPIC && (resource.name().equals(Topics.EVENTS)
            || resource.name().equals(Topics.REPORTS) || resource.name().equals(Topics.HOLDS)) || isGroup(resource);
    }

    /** Whether a resource is a group that our clients name to read the topics. */
    private static boolean isGroup(ResourcePattern resource) {
        return resource.resourceType() == ResourceType.GROUP
            && (resource.name().equals(GROUP) || resource.name().startsWith(GROUP + "-"));
    }

    /** Decide an action on an own topic; null leaves it to the ACLs. */
    AuthorizationResult decide(String principal, boolean isBroker, Action action) {
        if (!isOne(action.resourcePattern())) {
            return null;
        }
        AclOperation operation = action.operation();
        boolean isOfWriters = OF_READERS.contains(operation)
            || operation == AclOperation.WRITE && action.resourcePattern().name().equals(Topics.HOLDS);
        if (isBroker || isOfWriters && writers.contains(principal)) {
            return AuthorizationResult.ALLOWED;
        }
        return operation == AclOperation.WRITE ? AuthorizationResult.DENIED : null;
    }

    boolean isBroker(String principal, AuthorizableRequestContext context, AskAcls acls) {
        if (superUsers.contains(principal) || own.contains(principal)) {
            return true;
        }
        synchronized (CLIENT_IDS) {
            if (CLIENT_IDS.remove(context.clientId())) {
                own.add(principal);
                return true;
            }
        }
        return isClusterActionForBrokers
            && acls.authorize(context, CLUSTER_ACTION).get(0) == AuthorizationResult.ALLOWED;
    }

    /** {@code Authorizer.authorize} of the authorizer behind ours. */
    interface AskAcls {
        List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions);
    }
}

package pidquota;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.helpers.NOPLogger;

import pidquota.OwnTopics.AskAcls;

/**
 * What both authorizers add to the ACLs: requests for new producer ids wait during a hold, and the plugin's topics are
 * protected. All authorizers of a process share one gate: a combined node (broker and controller) has two.
 */
final class HoldGate {
    private static final Logger LOG = LoggerFactory.getLogger(Holds.class);

    // Guarded by the class.
    private static HoldGate shared;
    private static int users;

    private final Holds holds;
    private final Transactions transactions = new Transactions();
    private final OwnTopics ownTopics;
    private final HoldTopic topic;
    private boolean hasStarted;

    private HoldGate(Map<String, ?> configs, boolean hasAcls) {
        // The Reporter logs wrong values of its own properties.
        Settings settings = new Settings(configs, NOPLogger.NOP_LOGGER);
        Set<String> superUsers = settings.principals("super.users", LOG);
        Set<String> never = new HashSet<>(settings.principals(Settings.PREFIX + "never", LOG));
        never.addAll(superUsers);
        holds = new Holds(settings.maxHolds(LOG), never);
        boolean allowsEveryone = settings.text("allow.everyone.if.no.acl.found", "false").equalsIgnoreCase("true");
        Set<String> writers = settings.principals(Settings.PREFIX + "writers", LOG);
        ownTopics = new OwnTopics(superUsers, writers, hasAcls && !allowsEveryone);
        topic = settings.isBroker ? new HoldTopic(settings, holds, transactions, LOG) : null;
    }

    /** Return the process's gate. {@code hasAcls} tells whether there is an authorizer behind ours. */
    static synchronized HoldGate open(Map<String, ?> configs, boolean hasAcls) {
        if (shared == null) {
            shared = new HoldGate(configs, hasAcls);
        }
        users++;
        return shared;
    }

    /** Follow the topic of holds, in a thread of its own. */
    synchronized void start() {
        if (topic != null && !hasStarted) {
            hasStarted = true;
            topic.start();
        }
    }

    static synchronized void close() {
        if (shared != null && --users == 0) {
            if (shared.topic != null) {
                shared.topic.stop();
            }
            shared = null;
        }
    }

    /** Authorize a request. Throws {@link Held} if it has to wait. */
    List<AuthorizationResult> authorize(AskAcls acls, AuthorizableRequestContext context, List<Action> actions) {
        if (OwnTopics.isOneOf(actions)) {
            return authorizeOwn(acls, context, actions);
        }
        List<AuthorizationResult> results = acls.authorize(context, actions);
        if (isInit(context) && actions.size() == 1 && results.get(0) == AuthorizationResult.ALLOWED
            && asksForNewId(actions.get(0))) {
            holdBack(context);
        }
        return results;
    }

    /** Throw {@link Held} if a request has to wait, for which ACLs have answered {@code authorizeByResourceType}. */
    AuthorizationResult authorizeByResourceType(AuthorizationResult result, AuthorizableRequestContext context) {
        // Kafka asks this for an idempotent producer that lacks IDEMPOTENT_WRITE.
        if (isInit(context) && result == AuthorizationResult.ALLOWED) {
            holdBack(context);
        }
        return result;
    }

    private boolean isInit(AuthorizableRequestContext context) {
        return context.requestType() == ApiKeys.INIT_PRODUCER_ID.id && holds.areAny();
    }

    private boolean asksForNewId(Action action) {
        ResourceType type = action.resourcePattern().resourceType();
        return type == ResourceType.CLUSTER && action.operation() == AclOperation.IDEMPOTENT_WRITE
            || type == ResourceType.TRANSACTIONAL_ID && action.operation() == AclOperation.WRITE
                && transactions.isNew(action.resourcePattern().name());
    }

    private void holdBack(AuthorizableRequestContext context) {
        Holds.Hold hold = holds.find(Text.of(context.principal()));
        if (hold != null && hold.holdsBack(System.nanoTime())) {
            throw new Held();
        }
    }

    private List<AuthorizationResult> authorizeOwn(
        AskAcls acls, AuthorizableRequestContext context, List<Action> actions) {
        String principal = Text.of(context.principal());
        boolean isBroker = ownTopics.isBroker(principal, context, acls);
        List<AuthorizationResult> results = new ArrayList<>(actions.size());
        List<Action> others = new ArrayList<>();
        for (Action action : actions) {
            AuthorizationResult result = ownTopics.decide(principal, isBroker, action);
            results.add(result);
            if (result == null) {
                others.add(action);
            }
        }
        if (!others.isEmpty()) {
            Iterator<AuthorizationResult> answers = acls.authorize(context, others).iterator();
            results.replaceAll(result -> result == null ? answers.next() : result);
        }
        return results;
    }
}

package pidquota;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.CoordinatorLoadInProgressException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.slf4j.MDC;

/**
 * Kafka's own authorizer, but for one answer: while a principal is on hold, INIT_PRODUCER_ID without a transactional id
 * gets COORDINATOR_LOAD_IN_PROGRESS, which clients retry. Producers that have an id feel nothing.
 *
 * <p>A hold is an ACL binding that forbids nothing: DENY Write for the principal, from a host or all, on a topic name that
 * can't exist, {@code pid-quota-hold:<until_ms>}. It ends at that time by itself. Ends more than an hour ahead hold nobody;
 * {@code User:*} and super users are never held. On anything unexpected this is the stock authorizer.
 */
public class HoldAuthorizer extends StandardAuthorizer {
    static final String PREFIX = "pid-quota-hold:";
    static final long LONGEST_MS = 3_600_000;
    /** Set while the broker logs the answer as an error, so that its log settings can leave that line out. */
    static final String LOG_KEY = "pid-quota";

    private final Map<Uuid, Hold> holds = new HashMap<>();
    /** What requests see: replaced as a whole when a hold comes or goes. */
    private volatile Map<String, List<Hold>> holdsByPrincipal = Map.of();
    private volatile Set<String> superUsers = Set.of();

    @Override
    public void configure(Map<String, ?> configs) {
        super.configure(configs);
        Object names = configs.get(SUPER_USERS_CONFIG);
        superUsers = names == null ? Set.of() : new HashSet<>(List.of(names.toString().trim().split("\\s*;\\s*")));
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        if (context.requestType() == ApiKeys.INIT_PRODUCER_ID.id && holdsBack(context, actions)) {
            throw new Held();
        }
        return super.authorize(context, actions);
    }

    private boolean holdsBack(AuthorizableRequestContext context, List<Action> actions) {
        try {
            boolean isHeld = asksForNewId(actions) && isHeld(context);
            if (isHeld) {
                MDC.put(LOG_KEY, "held");
            } else {
                MDC.remove(LOG_KEY);
            }
            return isHeld;
        } catch (RuntimeException e) {
            return false;
        }
    }

    /** With a transactional id the broker asks for that first: whoever begins anew under it keeps its producer id. */
    private static boolean asksForNewId(List<Action> actions) {
        return actions.size() == 1
            && actions.get(0).operation() == AclOperation.IDEMPOTENT_WRITE
            && actions.get(0).resourcePattern().resourceType() == ResourceType.CLUSTER;
    }

    private boolean isHeld(AuthorizableRequestContext context) {
        String principal = context.principal().getPrincipalType() + ":" + context.principal().getName();
        List<Hold> own = holdsByPrincipal.get(principal);
        if (own == null || superUsers.contains(principal)) {
            return false;
        }
        long nowMs = System.currentTimeMillis();
        String host = context.clientAddress().getHostAddress();
        return own.stream().anyMatch(hold -> hold.covers(host, nowMs));
    }

    @Override
    public void addAcl(Uuid id, StandardAcl acl) {
        super.addAcl(id, acl);
        change(Set.of(), Map.of(id, acl));
    }

    @Override
    public void removeAcl(Uuid id) {
        super.removeAcl(id);
        change(Set.of(id), Map.of());
    }

    @Override
    public void loadSnapshot(Map<Uuid, StandardAcl> acls) {
        super.loadSnapshot(acls);
        synchronized (holds) {
            change(Set.copyOf(holds.keySet()), acls);
        }
    }

    private void change(Collection<Uuid> gone, Map<Uuid, StandardAcl> come) {
        try {
            synchronized (holds) {
                boolean isChanged = holds.keySet().removeAll(gone);
                for (Map.Entry<Uuid, StandardAcl> each : come.entrySet()) {
                    Hold hold = Hold.of(each.getValue());
                    if (hold != null) {
                        holds.put(each.getKey(), hold);
                        isChanged = true;
                    }
                }
                if (isChanged) {
                    holdsByPrincipal = holds.values().stream()
                        .collect(Collectors.groupingBy(hold -> hold.principal, Collectors.toUnmodifiableList()));
                }
            }
        } catch (RuntimeException e) {
            // A broker that can't read a hold holds nobody back; the ACL itself is in force.
            holdsByPrincipal = Map.of();
        }
    }

    private static final class Hold {
        private final String principal;
        private final String host;
        private final long untilMs;

        private Hold(String principal, String host, long untilMs) {
            this.principal = principal;
            this.host = host;
            this.untilMs = untilMs;
        }

        /** The hold that an ACL means, or null: what is not exactly one is an ordinary ACL. */
        static Hold of(StandardAcl acl) {
            boolean isHold = acl.resourceType() == ResourceType.TOPIC
                && acl.patternType() == PatternType.LITERAL
                && acl.operation() == AclOperation.WRITE
                && acl.permissionType() == AclPermissionType.DENY
                && acl.resourceName().startsWith(PREFIX)
                && !acl.principal().endsWith(":*");
            if (!isHold) {
                return null;
            }
            try {
                return new Hold(acl.principal(), acl.host(), Long.parseLong(acl.resourceName().substring(PREFIX.length())));
            } catch (NumberFormatException e) {
                return null;
            }
        }

        boolean covers(String from, long nowMs) {
            return nowMs < untilMs && untilMs - nowMs <= LONGEST_MS && (host.equals("*") || host.equals(from));
        }
    }

    /** Retriable; without a stack trace, since each retry of each producer throws it. */
    private static final class Held extends CoordinatorLoadInProgressException {
        private static final long serialVersionUID = 1L;

        Held() {
            super("pid-quota holds back new producer ids of this principal");
        }

        @Override
        public Throwable fillInStackTrace() {
            return this;
        }
    }
}

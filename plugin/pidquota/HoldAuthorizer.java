package pidquota;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

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
 * Kafka's authorizer with one difference: while a principal is on hold, INIT_PRODUCER_ID without a transactional id
 * gets COORDINATOR_LOAD_IN_PROGRESS. Clients retry after this error. Producers that have an id are not affected.
 *
 * <p>A hold is an ACL binding that denies the principal Write, from one host or all hosts, on a topic that can't exist.
 * The topic's name is {@code pid-quota-hold:<until_ms>} or {@code pid-quota-hold:<until_ms>:<id of a lease>}. The hold
 * ends at {@code until_ms}. This authorizer ignores a hold that ends more than an hour from now, and never holds
 * {@code User:*} or super users. After an error, this authorizer behaves like Kafka's.
 */
public class HoldAuthorizer extends StandardAuthorizer {
    static final String PREFIX = "pid-quota-hold:";
    static final String WILDCARD = "User:*";
    static final long MAX_MS = 3_600_000;
    /** A key that is set while the broker logs the answer as an error. {@link Ears} suppresses that message. */
    static final String LOG_KEY = "pid-quota";
    static final String HELD = "held";

    /** Matches a hold's topic ({@code wire/holds.py}). */
    private static final Pattern NAME = Pattern.compile(PREFIX + "([1-9][0-9]{0,17})(?::[0-9a-z]{1,32})?");

    private final Map<Uuid, Hold> holds = new HashMap<>();
    /** The holds that requests read. The lists are immutable. */
    private volatile Map<String, List<Hold>> holdsByPrincipal = new ConcurrentHashMap<>();
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
                MDC.put(LOG_KEY, HELD);
            } else {
                MDC.remove(LOG_KEY);
            }
            return isHeld;
        } catch (RuntimeException e) {
            return false;
        }
    }

    /** Whether a request has no transactional id. The broker checks IDEMPOTENT_WRITE only for such requests. */
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
        change(() -> {
            forget(id);
            keep(id, acl, holdsByPrincipal);
        });
    }

    @Override
    public void removeAcl(Uuid id) {
        super.removeAcl(id);
        change(() -> forget(id));
    }

    @Override
    public void loadSnapshot(Map<Uuid, StandardAcl> acls) {
        super.loadSnapshot(acls);
        change(() -> {
            holds.clear();
            Map<String, List<Hold>> byPrincipal = new ConcurrentHashMap<>();
            acls.forEach((id, acl) -> keep(id, acl, byPrincipal));
            holdsByPrincipal = byPrincipal;
        });
    }

    private void change(Runnable step) {
        synchronized (holds) {
            try {
                step.run();
            } catch (RuntimeException e) {
                // If a hold can't be read, drop all holds. The ACLs stay in force.
                holds.clear();
                holdsByPrincipal = new ConcurrentHashMap<>();
            }
        }
    }

    private void keep(Uuid id, StandardAcl acl, Map<String, List<Hold>> byPrincipal) {
        Hold hold = Hold.of(acl);
        if (hold != null) {
            holds.put(id, hold);
            byPrincipal.merge(hold.principal, List.of(hold), HoldAuthorizer::joined);
        }
    }

    private void forget(Uuid id) {
        Hold gone = holds.remove(id);
        if (gone != null) {
            holdsByPrincipal.computeIfPresent(gone.principal, (principal, own) -> without(gone, own));
        }
    }

    private static List<Hold> joined(List<Hold> some, List<Hold> more) {
        return Stream.concat(some.stream(), more.stream()).collect(Collectors.toUnmodifiableList());
    }

    private static List<Hold> without(Hold gone, List<Hold> own) {
        List<Hold> left = own.stream().filter(hold -> hold != gone).collect(Collectors.toUnmodifiableList());
        return left.isEmpty() ? null : left;
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

        /** The hold that an ACL describes, or null. */
        static Hold of(StandardAcl acl) {
            boolean isHold = acl.resourceType() == ResourceType.TOPIC
                && acl.patternType() == PatternType.LITERAL
                && acl.operation() == AclOperation.WRITE
                && acl.permissionType() == AclPermissionType.DENY
                && !acl.principal().equals(WILDCARD);
            Matcher name = NAME.matcher(acl.resourceName());
            return isHold && name.matches() ? new Hold(acl.principal(), acl.host(), Long.parseLong(name.group(1))) : null;
        }

        boolean covers(String from, long nowMs) {
            return nowMs < untilMs && untilMs - nowMs <= MAX_MS && (host.equals("*") || host.equals(from));
        }
    }

    /** A retriable error without a stack trace, because each retry of each producer throws it. */
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

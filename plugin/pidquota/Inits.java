package pidquota;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.kafka.common.message.InitProducerIdRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.InitProducerIdRequest;
import org.apache.kafka.common.requests.RequestContext;

/**
 * Reports each answer to INIT_PRODUCER_ID. Kafka logs most answers on the request's thread. If transaction
 * state is replicated, the coordinator logs the answer for a transactional id on another thread. The answer belongs to
 * the open request for that id. If several open requests for that id differ, there is no report.
 */
final class Inits {
    private static final int MAX_OPEN = 5000;
    /** A request gets no answer after this time, which exceeds the longest transaction. */
    private static final long UNCERTAIN_MS = 20 * 60_000L;

    private static final String HANDLING = "] Handling request:";
    private static final String COMPLETED = "] Completed ";
    private static final String RESULT = "'s InitProducerIdRequest with result InitProducerIdResult(";
    private static final Pattern ANSWER = Pattern.compile("(-?\\d{1,19}),(-?\\d{1,6}),([A-Z_]{1,80})\\) from client ");
    private static final Pattern INITIALIZED = Pattern.compile(
        "\\[TransactionCoordinator id=\\d+\\] Initialized transactionalId (.*) with producerId (\\d{1,19}) and producer "
            + "epoch (-?\\d{1,6}) on partition __transaction_state-\\d+", Pattern.DOTALL);
    private static final Pattern REFUSED = Pattern.compile(
        "\\[TransactionCoordinator id=\\d+\\] Returning ([A-Z_]{1,80}) error code to client for (.*)'s InitProducerId "
            + "request", Pattern.DOTALL);

    private final CurrentRequest requests;
    private final Reports reports;
    private final int perSecond;
    final AtomicLong dropped = new AtomicLong();
    final AtomicLong ambiguous = new AtomicLong();

    // Guarded by `this`.
    private final Map<String, List<Open>> openById = new HashMap<>();
    private int opens;
    private long uncertainUntilMs;
    private long second;
    private int inSecond;

    Inits(CurrentRequest requests, Reports reports, int perSecond) {
        this.requests = requests;
        this.reports = reports;
        this.perSecond = perSecond;
    }

    boolean wants() throws Throwable {
        return requests.context(ApiKeys.INIT_PRODUCER_ID) != null;
    }

    /** Process a message of {@link Source#REQUESTS}. */
    void logged(String message) throws Throwable {
        RequestContext context = requests.context(ApiKeys.INIT_PRODUCER_ID);
        if (context == null) {
            return;
        }
        InitProducerIdRequestData data = ((InitProducerIdRequest) requests.body()).data();
        // No client can change the text before the first bracket, "[KafkaApi-<id>".
        int bracket = message.indexOf(']');
        if (message.startsWith(HANDLING, bracket)) {
            opened(new Open(context, data, requests.request()));
        } else if (message.startsWith(COMPLETED, bracket)) {
            answered(context, data, message, bracket + COMPLETED.length());
        }
    }

    private synchronized void opened(Open open) {
        if (open.transactionalId == null) {
            return;
        }
        if (opens >= MAX_OPEN) {
            openById.values().forEach(this::removeAnswered);
            openById.values().removeIf(List::isEmpty);
        }
        if (opens >= MAX_OPEN) {
            uncertainUntilMs = System.currentTimeMillis() + UNCERTAIN_MS;
            return;
        }
        List<Open> same = openById.computeIfAbsent(open.transactionalId, id -> new ArrayList<>());
        removeAnswered(same);
        same.add(open);
        opens++;
    }

    private void removeAnswered(List<Open> from) {
        remove(from, each -> requests.isAnswered(each.request.get()));
    }

    private void remove(List<Open> from, Predicate<Open> which) {
        int before = from.size();
        from.removeIf(which);
        opens -= before - from.size();
    }

    /** Process an answer on the request's thread. The message must contain the transactional id and the client id. */
    private void answered(RequestContext context, InitProducerIdRequestData data, String message, int at) {
        String id = String.valueOf(data.transactionalId());
        int result = at + id.length();
        Matcher answer = ANSWER.matcher(message);
        if (!message.startsWith(id, at) || !message.startsWith(RESULT, result)) {
            // This thread completes another request for another id, which the coordinator has logged.
            return;
        }
        boolean isOwn = answer.region(result + RESULT.length(), message.length()).lookingAt()
            && message.substring(answer.end()).equals(context.header.clientId() + ".");
        Open open = new Open(context, data, requests.request());
        if (!isOwn || !takeOwn(open)) {
            ambiguous.incrementAndGet();
            return;
        }
        write(open, Long.parseLong(answer.group(1)), Integer.parseInt(answer.group(2)), answer.group(3));
    }

    private synchronized boolean takeOwn(Open open) {
        if (open.transactionalId == null) {
            return true;
        }
        List<Open> same = openById.getOrDefault(open.transactionalId, new ArrayList<>());
        removeAnswered(same);
        boolean isSure = same.stream().allMatch(each -> each.isLike(open));
        remove(same, each -> each.request.get() == open.request.get());
        if (same.isEmpty()) {
            openById.remove(open.transactionalId);
        }
        return isSure;
    }

    /** Process a message of {@link Source#COORDINATOR}. */
    void coordinated(String message) throws Throwable {
        Matcher initialized = INITIALIZED.matcher(message);
        if (initialized.matches()) {
            Open open = takeForeign(initialized.group(1));
            if (open != null) {
                write(open, Long.parseLong(initialized.group(2)), Integer.parseInt(initialized.group(3)), "NONE");
            }
            return;
        }
        Matcher refused = REFUSED.matcher(message);
        if (refused.matches()) {
            Open open = takeForeign(refused.group(2));
            if (open != null) {
                write(open, -1, -1, refused.group(1));
            }
        }
    }

    /** The open request for an id; null if it is this thread's own, whose answer follows in a message of REQUESTS. */
    private Open takeForeign(String transactionalId) throws Throwable {
        boolean isOwn = requests.context(ApiKeys.INIT_PRODUCER_ID) != null
            && transactionalId.equals(((InitProducerIdRequest) requests.body()).data().transactionalId());
        return isOwn ? null : take(transactionalId);
    }

    private synchronized Open take(String rawTransactionalId) {
        String id = Text.cut(rawTransactionalId, Text.MAX_ID);
        List<Open> same = openById.getOrDefault(id, new ArrayList<>());
        removeAnswered(same);
        boolean isSure = !same.isEmpty() && System.currentTimeMillis() >= uncertainUntilMs
            && same.stream().allMatch(each -> each.isLike(same.get(0)));
        if (!isSure) {
            ambiguous.incrementAndGet();
            return null;
        }
        Open open = same.remove(0);
        opens--;
        if (same.isEmpty()) {
            openById.remove(id);
        }
        return open;
    }

    private void write(Open open, long producerId, int epoch, String error) {
        if (!isWithinRate()) {
            dropped.incrementAndGet();
            return;
        }
        boolean isQueued = reports.offer("init", new JsonFields()
            .add("principal", open.principal).add("address", open.address).add("error", error)
            .add("client_id", open.clientId).add("transactional_id", open.transactionalId)
            .add("producer_id", open.producerId).add("producer_epoch", open.epoch)
            .add("result_producer_id", producerId).add("result_producer_epoch", epoch));
        if (!isQueued) {
            dropped.incrementAndGet();
        }
    }

    private synchronized boolean isWithinRate() {
        long now = System.currentTimeMillis() / 1000;
        if (now != second) {
            second = now;
            inSecond = 0;
        }
        return inSecond++ < perSecond;
    }

    /** A request that may still be unanswered. */
    private static final class Open {
        private final String principal;
        private final String address;
        private final String clientId;
        private final String transactionalId;
        private final long producerId;
        private final int epoch;
        private final WeakReference<Object> request;

        Open(RequestContext context, InitProducerIdRequestData data, Object request) {
            principal = Text.of(context.principal);
            address = context.clientAddress.getHostAddress();
            clientId = Text.cut(context.header.clientId(), Text.MAX_ID);
            transactionalId = Text.cut(data.transactionalId(), Text.MAX_ID);
            producerId = data.producerId();
            epoch = data.producerEpoch();
            this.request = new WeakReference<>(request);
        }

        boolean isLike(Open other) {
            return principal.equals(other.principal) && address.equals(other.address)
                && Objects.equals(clientId, other.clientId)
                && producerId == other.producerId && epoch == other.epoch;
        }
    }
}

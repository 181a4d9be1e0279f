package pidquota;

import java.lang.ref.WeakReference;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.RequestContext;

/**
 * Writes a line for an appended batch, once per principal, client id and producer id in a tick. The class parses
 * Kafka's message {@code [ProducerStateManager partition=orders-0] Updated producer 5003 state to
 * ProducerAppendInfo(producerId=5003, producerEpoch=0, …)}. No client can forge this message, because topic names
 * contain neither {@code ]} nor blanks.
 */
final class Batches {
    private static final String BEGIN = "[ProducerStateManager partition=";
    private static final String UPDATED = "] Updated producer ";
    private static final String STATE = " state to ProducerAppendInfo(producerId=";
    private static final String EPOCH = ", producerEpoch=";

    private final CurrentRequest requests;
    private final Settings settings;
    private final TickMemory written;
    private final LineWriter lines;
    private final RequestProducerIds producerIds = new RequestProducerIds();
    private final ThreadLocal<Verdict> verdict = new ThreadLocal<>();

    Batches(CurrentRequest requests, Settings settings, TickMemory written, LineWriter lines) {
        this.requests = requests;
        this.settings = settings;
        this.written = written;
        this.lines = lines;
    }

    /** Whether the current request may append a producer id that has no line in this tick. */
    boolean wants() throws Throwable {
        RequestContext context = requests.context(ApiKeys.PRODUCE);
        if (context == null) {
            return false;
        }
        long tick = tick();
        Verdict last = verdict.get();
        // Kafka asks again for each batch of a request.
        if (last == null || last.context.get() != context || last.tick != tick) {
            last = new Verdict(context, tick, !isWritten(context, tick));
            verdict.set(last);
        }
        return last.isWanted;
    }

    private boolean isWritten(RequestContext context, long tick) throws Throwable {
        String principal = Text.of(context.principal);
        String clientId = Text.cut(context.header.clientId(), Text.MAX_ID);
        try {
            return producerIds.allPass(((ProduceRequest) requests.body()).data(),
                producerId -> written.contains(tick, new TickMemory.Entry(principal, clientId, producerId)));
        } catch (RuntimeException e) {
            // Batches are invalid, or the data is gone, as in a callback after a transaction's verification.
            return false;
        }
    }

    private long tick() {
        return System.currentTimeMillis() / settings.tickMs;
    }

    /** Process a message about an append. Return false if the message has an unknown form. */
    boolean logged(String message) throws Throwable {
        RequestContext context = requests.context(ApiKeys.PRODUCE);
        int updated = message.indexOf(UPDATED);
        if (context == null || updated < 0) {
            return true;
        }
        int state = message.indexOf(STATE, updated);
        int epoch = message.indexOf(EPOCH, state);
        int dash = message.lastIndexOf('-', updated);
        if (!message.startsWith(BEGIN) || state < 0 || epoch < 0 || dash < BEGIN.length()) {
            return false;
        }
        String topic = message.substring(BEGIN.length(), dash);
        if (settings.ignoredTopics.contains(topic)) {
            return true;
        }
        long producerId = Long.parseLong(message, updated + UPDATED.length(), state, 10);
        TickMemory.Entry entry = new TickMemory.Entry(
            Text.of(context.principal), Text.cut(context.header.clientId(), Text.MAX_ID), producerId);
        if (written.isFirst(tick(), entry)) {
            JsonFields fields = new JsonFields()
                .add("principal", entry.principal).add("producer_id", producerId)
                .add("producer_epoch", epochOf(message, epoch + EPOCH.length()))
                .add("topic", topic).add("partition", Long.parseLong(message, dash + 1, updated, 10))
                .add("address", context.clientAddress.getHostAddress()).add("client_id", entry.clientId)
                .add("transactional_id", transactionalId(requests.body())).add("api_version", context.header.apiVersion());
            if (!lines.offer("batch", fields)) {
                written.forget(entry);
            }
        }
        return true;
    }

    private static long epochOf(String message, int at) {
        return Long.parseLong(message, at, message.indexOf(',', at), 10);
    }

    private static String transactionalId(AbstractRequest body) {
        return body instanceof ProduceRequest ? Text.cut(((ProduceRequest) body).transactionalId(), Text.MAX_ID) : null;
    }

    /** The result of {@link #wants} for a request. The reference is weak, because requests may be large. */
    private static final class Verdict {
        private final WeakReference<RequestContext> context;
        private final long tick;
        private final boolean isWanted;

        Verdict(RequestContext context, long tick, boolean isWanted) {
            this.context = new WeakReference<>(context);
            this.tick = tick;
            this.isWanted = isWanted;
        }
    }
}

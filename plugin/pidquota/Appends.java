package pidquota;

import java.lang.ref.WeakReference;
import java.util.concurrent.atomic.AtomicReferenceArray;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.RequestContext;

/**
 * Tells {@link PidMemory} which principal appends with which producer id. The class parses Kafka's message
 * {@code [ProducerStateManager partition=orders-0] Updated producer 5003 state to ProducerAppendInfo(producerId=5003,
 * producerEpoch=0, …)}. No client can forge this message, because topic names contain neither {@code ]} nor blanks.
 */
final class Appends {
    private static final String BEGIN = "[ProducerStateManager partition=";
    private static final String UPDATED = "] Updated producer ";
    private static final String STATE = " state to ProducerAppendInfo(producerId=";
    private static final String EPOCH = ", producerEpoch=";
    /** More than a broker has threads of requests. Threads that share a place only look up more often. */
    private static final int VERDICTS = 256;

    private final CurrentRequest requests;
    private final PidMemory memory;
    private final SharedTexts texts = new SharedTexts();
    private final RequestProducerIds producerIds = new RequestProducerIds();
    /** The last verdict of each thread. A thread-local variable costs the broker's own variables of the thread more. */
    private final AtomicReferenceArray<Verdict> verdicts = new AtomicReferenceArray<>(VERDICTS);

    Appends(CurrentRequest requests, PidMemory memory) {
        this.requests = requests;
        this.memory = memory;
    }

    /** Whether the current request may append a producer id that the memory does not have. */
    boolean wants() throws Throwable {
        RequestContext context = requests.context(ApiKeys.PRODUCE);
        if (context == null) {
            return false;
        }
        int place = (int) Thread.currentThread().getId() & VERDICTS - 1;
        Verdict last = verdicts.get(place);
        // Kafka asks again for each batch of a request.
        if (last == null || last.context.get() != context) {
            last = new Verdict(context, !isKnown(context));
            verdicts.lazySet(place, last);
        }
        return last.isWanted;
    }

    private boolean isKnown(RequestContext context) throws Throwable {
        String principal = texts.of(context.principal);
        String clientId = Text.cut(context.header.clientId(), Text.MAX_ID);
        long nowMs = System.currentTimeMillis();
        try {
            return producerIds.allPass(((ProduceRequest) requests.body()).data(),
                producerId -> memory.isKnown(principal, clientId, producerId, nowMs));
        } catch (RuntimeException e) {
            // Batches are invalid, or the data is gone, as in a callback after a transaction's verification.
            return false;
        }
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
        PidMemory.Entry entry = new PidMemory.Entry(texts.of(context.principal),
            texts.share(Text.cut(context.header.clientId(), Text.MAX_ID)),
            Long.parseLong(message, updated + UPDATED.length(), state, 10));
        entry.topic = texts.share(message.substring(BEGIN.length(), dash));
        entry.partition = Integer.parseInt(message, dash + 1, updated, 10);
        entry.epoch = epochOf(message, epoch + EPOCH.length());
        entry.address = texts.share(context.clientAddress.getHostAddress());
        entry.transactionalId = transactionalId(requests.body());
        memory.add(entry, System.currentTimeMillis());
        return true;
    }

    private static short epochOf(String message, int at) {
        return (short) Integer.parseInt(message, at, message.indexOf(',', at), 10);
    }

    private static String transactionalId(AbstractRequest body) {
        return body instanceof ProduceRequest ? Text.cut(((ProduceRequest) body).transactionalId(), Text.MAX_ID) : null;
    }

    /** The result of {@link #wants} for a request. The reference is weak, because a request's header may be large. */
    private static final class Verdict {
        private final WeakReference<RequestContext> context;
        private final boolean isWanted;

        Verdict(RequestContext context, boolean isWanted) {
            this.context = new WeakReference<>(context);
            this.isWanted = isWanted;
        }
    }
}

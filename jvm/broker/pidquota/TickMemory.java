package pidquota;

import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Remembers in bounded memory which entries have a line in the current tick. Entries are in two halves. When the
 * younger half is full, the older half is forgotten. A flood therefore causes repeated lines.
 */
final class TickMemory {
    private static final int ENTRY_BYTES = 144;

    private final long halfBytes;
    private final AtomicLong forgotten = new AtomicLong();
    private volatile Tick tick = new Tick(Long.MIN_VALUE);

    TickMemory(long bytes) {
        halfBytes = bytes / 2;
    }

    /** Whether the entry is new in the tick. The caller then writes a line, or calls {@link #forget} if that fails. */
    boolean isFirst(long number, Entry entry) {
        Tick now = tick;
        if (now.number != number) {
            now = next(number);
        }
        if (now.old.containsKey(entry) || now.young.putIfAbsent(entry, Boolean.TRUE) != null) {
            return false;
        }
        if (now.bytes.addAndGet(entry.bytes()) > halfBytes) {
            age(now);
        }
        return true;
    }

    /** Whether the tick has a line for the entry, or a caller of {@link #isFirst} is about to write one. */
    boolean contains(long number, Entry entry) {
        Tick now = tick;
        return now.number == number && (now.old.containsKey(entry) || now.young.containsKey(entry));
    }

    void forget(Entry entry) {
        Tick now = tick;
        now.young.remove(entry);
        now.old.remove(entry);
    }

    /** How often a half was forgotten within its tick. */
    long forgotten() {
        return forgotten.get();
    }

    private synchronized Tick next(long number) {
        if (tick.number != number) {
            tick = new Tick(number);
        }
        return tick;
    }

    private synchronized void age(Tick now) {
        if (now.bytes.get() > halfBytes) {
            if (!now.old.isEmpty()) {
                forgotten.incrementAndGet();
            }
            now.old = now.young;
            now.young = new ConcurrentHashMap<>();
            now.bytes.set(0);
        }
    }

    private static final class Tick {
        private final long number;
        private final AtomicLong bytes = new AtomicLong();
        private volatile Map<Entry, Boolean> young = new ConcurrentHashMap<>();
        private volatile Map<Entry, Boolean> old = new ConcurrentHashMap<>();

        Tick(long number) {
            this.number = number;
        }
    }

    static final class Entry {
        final String principal;
        final String clientId;
        private final long producerId;
        private final int hash;

        Entry(String principal, String clientId, long producerId) {
            this.principal = principal;
            this.clientId = clientId;
            this.producerId = producerId;
            hash = 31 * (31 * principal.hashCode() + Objects.hashCode(clientId)) + Long.hashCode(producerId);
        }

        int bytes() {
            return ENTRY_BYTES + 2 * (principal.length() + (clientId == null ? 0 : clientId.length()));
        }

        @Override
        public int hashCode() {
            return hash;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Entry && producerId == ((Entry) other).producerId
                && principal.equals(((Entry) other).principal) && Objects.equals(clientId, ((Entry) other).clientId);
        }
    }
}

package pidquota;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/**
 * Remembers in bounded memory which producer ids are in use, and which of them have an event. Threads of requests only
 * look entries up and add new ones. The plugin's thread takes what is due: a new entry at once, and an entry in use once
 * per repeat interval, at a moment that a hash of principal and broker chooses.
 *
 * <p>Entries are in slots by that hash. An interval has as many moments as there are slots. So the events of principals
 * are spread over the interval, and those of one principal come together, in few records.
 */
final class PidMemory {
    private static final int SLOTS = 256;
    private static final int ENTRY_BYTES = 136;
    private static final int TEXT_BYTES = 40;
    /** Precision of the time of the last use, so that a busy producer's entry is rarely written. */
    private static final long USED_STEP_MS = 50;

    private final int brokerId;
    private final long repeatMs;
    private final long windowMs;
    private final long mostBytes;
    private final List<Map<Entry, Entry>> slots = new ArrayList<>(SLOTS);
    private final Queue<Entry> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicLong waitingCount = new AtomicLong();
    private final AtomicLong bytes = new AtomicLong();
    final AtomicLong dropped = new AtomicLong();
    final AtomicLong forgotten = new AtomicLong();

    // Only the plugin's thread uses this.
    private long visited;

    PidMemory(Settings settings, long nowMs) {
        brokerId = settings.brokerId;
        repeatMs = settings.repeatMs;
        windowMs = settings.windowMs;
        mostBytes = settings.memoryBytes;
        visited = moment(nowMs);
        for (int i = 0; i < SLOTS; i++) {
            slots.add(new ConcurrentHashMap<>());
        }
    }

    /** Whether the producer id has an event or waits for one, so that this use needs none of its own. */
    boolean isKnown(String principal, String clientId, long producerId, long nowMs) {
        Entry probe = new Entry(principal, clientId, producerId);
        Entry entry = slot(probe).get(probe);
        if (entry == null) {
            return false;
        }
        use(entry, nowMs);
        return true;
    }

    /** Add an appended batch. */
    void add(Entry added, long nowMs) {
        Map<Entry, Entry> slot = slot(added);
        Entry before = slot.get(added);
        if (before == null) {
            if (bytes.get() + added.bytes() > mostBytes) {
                dropped.incrementAndGet();
                return;
            }
            added.usedMs = nowMs;
            added.waitingMs = nowMs;
            before = slot.putIfAbsent(added, added);
            if (before == null) {
                bytes.addAndGet(added.bytes());
                offer(added);
                return;
            }
        }
        use(before, nowMs);
    }

    private void use(Entry entry, long nowMs) {
        if (nowMs - entry.usedMs >= USED_STEP_MS) {
            entry.usedMs = nowMs;
            if (nowMs - entry.writtenMs >= windowMs && entry.waitingMs == 0) {
                wait(entry, nowMs);
            }
        }
    }

    /** Let an entry wait for an event with this time, unless it waits for an earlier one. */
    private void wait(Entry entry, long eventMs) {
        synchronized (entry) {
            if (entry.waitingMs == 0 || eventMs < entry.waitingMs) {
                boolean isNew = entry.waitingMs == 0;
                entry.waitingMs = eventMs;
                if (isNew) {
                    offer(entry);
                }
            }
        }
    }

    private void offer(Entry entry) {
        waitingCount.incrementAndGet();
        waiting.add(entry);
    }

    /** Number of entries that wait for an event. */
    long waiting() {
        return waitingCount.get();
    }

    boolean isEmpty() {
        return bytes.get() == 0;
    }

    /** Let entries wait whose moment has come and that were used since their last event. Forget entries out of use. */
    void visit(long nowMs) {
        long now = moment(nowMs);
        // After a pause, and after a step of the clock, each slot is visited once.
        long from = now - visited > SLOTS || now < visited ? now - SLOTS : visited;
        for (long moment = from + 1; moment <= now; moment++) {
            Map<Entry, Entry> slot = slots.get((int) Math.floorMod(moment, (long) SLOTS));
            for (Entry entry : slot.values()) {
                if (entry.waitingMs != 0) {
                    continue;
                }
                if (entry.usedMs > entry.writtenMs) {
                    wait(entry, entry.usedMs);
                } else if (nowMs - entry.usedMs >= windowMs) {
                    remove(slot, entry);
                }
            }
        }
        visited = now;
        trim();
    }

    /** Time between two moments. */
    long momentNs() {
        return repeatMs * 1_000_000 / SLOTS;
    }

    private long moment(long nowMs) {
        return nowMs * SLOTS / repeatMs;
    }

    /** Forget the least recently used entries that have an event, in the fullest slots: a flood forgets its own. */
    private void trim() {
        for (int i = 0; i < SLOTS && bytes.get() > mostBytes / 4 * 3; i++) {
            Map<Entry, Entry> slot = slots.stream().max(Comparator.comparingInt(Map::size)).get();
            List<Entry> old = slot.values().stream().filter(each -> each.waitingMs == 0)
                .sorted(Comparator.comparingLong(each -> each.usedMs)).collect(Collectors.toList());
            if (old.isEmpty()) {
                return;
            }
            for (Entry each : old.subList(0, (old.size() + 1) / 2)) {
                remove(slot, each);
                forgotten.incrementAndGet();
            }
        }
    }

    private void remove(Map<Entry, Entry> slot, Entry entry) {
        if (slot.remove(entry) != null) {
            bytes.addAndGet(-entry.bytes());
        }
    }

    /** Take up to {@code most} entries that wait, as events. Pass each event that was not delivered to {@link #undo}. */
    List<Event> take(int most) {
        List<Event> events = new ArrayList<>();
        while (events.size() < most) {
            Entry entry = waiting.poll();
            if (entry == null) {
                break;
            }
            waitingCount.decrementAndGet();
            synchronized (entry) {
                events.add(new Event(entry, entry.waitingMs));
                entry.writtenMs = entry.waitingMs;
                entry.waitingMs = 0;
            }
        }
        return events;
    }

    void undo(Event event) {
        wait(event.entry, event.timestampMs);
    }

    private Map<Entry, Entry> slot(Entry entry) {
        long mixed = (entry.principal.hashCode() * 31L + brokerId) * 0x9E3779B97F4A7C15L;
        return slots.get((int) (mixed >>> 56));
    }

    /** A use of a producer id, at a time by the broker's clock. */
    static final class Event {
        final Entry entry;
        final long timestampMs;

        Event(Entry entry, long timestampMs) {
            this.entry = entry;
            this.timestampMs = timestampMs;
        }
    }

    /** A producer id that a principal uses under a client id, and fields of the append that added it. */
    static final class Entry {
        final String principal;
        final String clientId;
        final long producerId;
        String topic;
        String transactionalId;
        String address;
        int partition;
        short epoch;
        private final int hash;
        private volatile long usedMs;
        /** Time of the newest event; 0 before the first. */
        private volatile long writtenMs;
        /** Time of the event that the entry waits for; 0 for none. */
        private volatile long waitingMs;

        Entry(String principal, String clientId, long producerId) {
            this.principal = principal;
            this.clientId = clientId;
            this.producerId = producerId;
            hash = 31 * (31 * principal.hashCode() + Objects.hashCode(clientId)) + Long.hashCode(producerId);
        }

        /** Upper estimate of the heap that the entry takes, as if no other entry shared its client id. */
        int bytes() {
            return ENTRY_BYTES + bytes(clientId) + bytes(transactionalId);
        }

        private static int bytes(String text) {
            return text == null ? 0 : TEXT_BYTES + 2 * text.length();
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

package pidquota;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

import pidquota.PidMemory.Event;

/**
 * Packs events into records of the topic {@code produce-events}: several events of one principal, in order. {@code
 * wire/event_record.py} documents the format.
 */
final class EventRecords {
    private static final int MOST_EVENTS = 1000;
    /** Bytes of an event's numbers, at most. */
    private static final int EVENT_BYTES = 60;
    /** Bytes of a group without its texts, at most. */
    private static final int GROUP_BYTES = 120;

    private EventRecords() {
    }

    /** A record, and the events in it. */
    static final class EventRecord {
        final String principal;
        final List<Event> events;
        final String value;

        private EventRecord(String principal, List<Event> events, String value) {
            this.principal = principal;
            this.events = events;
            this.value = value;
        }
    }

    /**
     * Pack events, each principal's in their order.
     *
     * @param mostBytes Approximate size of a record, at most. A record of one event may be larger.
     * @param isLearning Tells which events carry the mark.
     */
    static List<EventRecord> pack(List<Event> events, int brokerId, int mostBytes, Predicate<Event> isLearning) {
        Map<String, List<Event>> byPrincipal = new LinkedHashMap<>();
        for (Event event : events) {
            byPrincipal.computeIfAbsent(event.entry.principal, principal -> new ArrayList<>()).add(event);
        }
        List<EventRecord> records = new ArrayList<>();
        for (List<Event> own : byPrincipal.values()) {
            Packer packer = new Packer(brokerId, mostBytes, isLearning);
            for (Event event : own) {
                if (!packer.add(event)) {
                    records.add(packer.record());
                    packer = new Packer(brokerId, mostBytes, isLearning);
                    packer.add(event);
                }
            }
            records.add(packer.record());
        }
        return records;
    }

    private static final class Packer {
        private final int brokerId;
        private final int mostBytes;
        private final Predicate<Event> isLearning;
        private final List<Event> events = new ArrayList<>();
        /** Number of each group, by what its events share. */
        private final Map<String, Integer> groups = new LinkedHashMap<>();
        private final List<Integer> groupOf = new ArrayList<>();
        private int bytes;

        Packer(int brokerId, int mostBytes, Predicate<Event> isLearning) {
            this.brokerId = brokerId;
            this.mostBytes = mostBytes;
            this.isLearning = isLearning;
        }

        /** Add an event. Return false if the record is full; the first event always fits. */
        boolean add(Event event) {
            String group = shared(event.entry, isLearning.test(event));
            int more = EVENT_BYTES + (groups.containsKey(group) ? 0 : GROUP_BYTES + 3 * group.length());
            if (!events.isEmpty() && (events.size() >= MOST_EVENTS || bytes + more > mostBytes)) {
                return false;
            }
            groups.putIfAbsent(group, groups.size());
            groupOf.add(groups.get(group));
            bytes += more;
            events.add(event);
            return true;
        }

        EventRecord record() {
            Event first = events.get(0);
            int size = events.size();
            JsonFields fields = new JsonFields()
                .add("timestamp_ms", first.timestampMs).add("principal", first.entry.principal).add("broker_id", brokerId)
                .add("after_ms", size, i -> events.get(i).timestampMs - first.timestampMs)
                .add("producer_ids", size, i -> events.get(i).entry.producerId)
                .addObjects("groups", groups.keySet());
            if (groups.size() > 1) {
                fields.add("group", size, groupOf::get);
            }
            if (events.stream().anyMatch(event -> event.entry.epoch != 0)) {
                fields.add("producer_epochs", size, i -> events.get(i).entry.epoch);
            }
            fields.add("partitions", size, i -> events.get(i).entry.partition);
            return new EventRecord(first.entry.principal, events, fields.toString());
        }
    }

    /** The fields that several events of a record share, as JSON. */
    private static String shared(PidMemory.Entry entry, boolean isLearning) {
        JsonFields fields = new JsonFields().add("topic", entry.topic).add("client_id", entry.clientId)
            .add("transactional_id", entry.transactionalId).add("address", entry.address);
        return (isLearning ? fields.add("learning", true) : fields).toString();
    }
}

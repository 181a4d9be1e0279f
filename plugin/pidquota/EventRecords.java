package pidquota;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
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
        private final Map<Group, Integer> groups = new HashMap<>();
        private final List<JsonFields> groupFields = new ArrayList<>();
        private final List<Integer> groupOf = new ArrayList<>();
        private int bytes;

        Packer(int brokerId, int mostBytes, Predicate<Event> isLearning) {
            this.brokerId = brokerId;
            this.mostBytes = mostBytes;
            this.isLearning = isLearning;
        }

        /** Add an event. Return false if the record is full; the first event always fits. */
        boolean add(Event event) {
            Group group = new Group(event, isLearning.test(event));
            Integer number = groups.get(group);
            JsonFields fields = number == null ? group.fields() : null;
            int more = EVENT_BYTES + (fields == null ? 0 : GROUP_BYTES + 3 * fields.length());
            if (!events.isEmpty() && (events.size() >= MOST_EVENTS || bytes + more > mostBytes)) {
                return false;
            }
            if (number == null) {
                number = groups.size();
                groups.put(group, number);
                groupFields.add(fields);
            }
            bytes += more;
            events.add(event);
            groupOf.add(number);
            return true;
        }

        EventRecord record() {
            Event first = events.get(0);
            int size = events.size();
            JsonFields fields = new JsonFields()
                .add("timestamp_ms", first.timestampMs).add("principal", first.entry.principal).add("broker_id", brokerId)
                .add("after_ms", size, i -> events.get(i).timestampMs - first.timestampMs)
                .add("producer_ids", size, i -> events.get(i).entry.producerId)
                .add("groups", groupFields);
            if (groupFields.size() > 1) {
                fields.add("group", size, groupOf::get);
            }
            if (events.stream().anyMatch(event -> event.entry.epoch != 0)) {
                fields.add("producer_epochs", size, i -> events.get(i).entry.epoch);
            }
            fields.add("partitions", size, i -> events.get(i).entry.partition);
            return new EventRecord(first.entry.principal, events, fields.toString());
        }
    }

    /** What several events of a record share. */
    private static final class Group {
        private final PidMemory.Entry entry;
        private final boolean isLearning;

        Group(Event event, boolean isLearning) {
            entry = event.entry;
            this.isLearning = isLearning;
        }

        JsonFields fields() {
            JsonFields fields = new JsonFields().add("topic", entry.topic).add("client_id", entry.clientId)
                .add("transactional_id", entry.transactionalId).add("address", entry.address);
            return isLearning ? fields.add("learning", true) : fields;
        }

        @Override
        public int hashCode() {
            return Objects.hash(entry.topic, entry.clientId, entry.transactionalId, entry.address, isLearning);
        }

        @Override
        public boolean equals(Object other) {
            if (!(other instanceof Group)) {
                return false;
            }
            PidMemory.Entry its = ((Group) other).entry;
            return isLearning == ((Group) other).isLearning && Objects.equals(entry.topic, its.topic)
                && Objects.equals(entry.clientId, its.clientId) && Objects.equals(entry.address, its.address)
                && Objects.equals(entry.transactionalId, its.transactionalId);
        }
    }
}

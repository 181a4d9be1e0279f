package pidquota;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/**
 * Who is on hold on this broker. One thread changes the holds; threads of requests call {@link #find}. Times in ns are of
 * the monotonic clock, times in ms are the wall clock's, for reports.
 */
final class Holds {
    /** Bounds the memory that a writer of records can fill. */
    private static final int MAX_RECORDS = 2000;
    private static final int MAX_REPORT_CHARS = 250_000;

    private final int max;
    private final Set<String> never;
    /** Holds that are not over, the oldest first. Those of released principals are not in force. */
    private final Map<String, Hold> holds = new LinkedHashMap<>();
    private final Map<String, Long> releaseEndsNs = new HashMap<>();
    private final Queue<Hold> ended = new ArrayDeque<>();
    private volatile Map<String, Hold> inForce = Map.of();
    private String ignored;

    /** {@code never} are the principals that are never held. */
    Holds(int max, Set<String> never) {
        this.max = max;
        this.never = never;
    }

    /** The hold in force on a principal, or null. */
    Hold find(String principal) {
        return inForce.get(principal);
    }

    boolean areAny() {
        return !inForce.isEmpty();
    }

    /** Obey a record that has {@code leftMs} left. {@link #update} puts the outcome in force. */
    void obey(HoldRecord record, long leftMs, long nowNs, long nowMs) {
        long endsNs = nowNs + TimeUnit.MILLISECONDS.toNanos(leftMs);
        if (record.isRelease) {
            if (leftMs <= 0) {
                releaseEndsNs.remove(record.principal);
            } else if (releaseEndsNs.size() < MAX_RECORDS || record.principal.equals(HoldRecord.EVERYBODY)) {
                releaseEndsNs.put(record.principal, endsNs);
            } else {
                throw new IllegalArgumentException("there are " + MAX_RECORDS + " releases");
            }
            return;
        }
        Hold hold = holds.get(record.principal);
        if (leftMs <= 0) {
            if (hold != null) {
                holds.remove(record.principal);
                end(hold, record.durationMs > 0 ? "expired" : "removed", nowMs);
            }
            return;
        }
        if (never.contains(record.principal)) {
            throw new IllegalArgumentException("the broker never holds it (super.users, pid.quota.never)");
        }
        if (hold == null) {
            if (holds.size() >= MAX_RECORDS) {
                throw new IllegalArgumentException("there are " + MAX_RECORDS + " holds");
            }
            hold = new Hold(record.principal);
            holds.put(record.principal, hold);
        }
        long everyNs = TimeUnit.MILLISECONDS.toNanos(record.initEveryMs);
        hold.obey(record.decisionId, record.writer, everyNs, endsNs, nowMs + leftMs);
    }

    /** Note why a record was ignored. */
    void ignore(String why) {
        ignored = why;
    }

    /** Nobody is held or released any more, because the topic is gone. */
    void clear(long nowMs) {
        holds.values().forEach(hold -> end(hold, "removed", nowMs));
        holds.clear();
        releaseEndsNs.clear();
    }

    /** Put holds and releases in force, and end those that are over. Return whether anything began or ended. */
    boolean update(long nowNs, long nowMs) {
        boolean isChange = releaseEndsNs.values().removeIf(endsNs -> nowNs - endsNs >= 0);
        Map<String, Hold> now = new HashMap<>();
        Iterator<Map.Entry<String, Hold>> each = holds.entrySet().iterator();
        for (int count = 0; each.hasNext();) {
            Map.Entry<String, Hold> entry = each.next();
            Hold hold = entry.getValue();
            boolean isOver = nowNs - hold.endsNs >= 0;
            if (isOver || count == max) {
                each.remove();
                end(hold, isOver ? "expired" : "limit", nowMs);
                ignored = isOver ? ignored : hold.principal + ": pid.quota.max.holds is " + max;
                continue;
            }
            count++;
            if (!isReleased(hold.principal)) {
                hold.begin(nowNs, nowMs);
                now.put(hold.principal, hold);
            } else if (hold.isInForce) {
                // It comes into force again when the release runs out.
                entry.setValue(new Hold(hold));
                end(hold, "released", nowMs);
            }
        }
        isChange |= !now.equals(inForce);
        inForce = now;
        return isChange;
    }

    private boolean isReleased(String principal) {
        return releaseEndsNs.containsKey(HoldRecord.EVERYBODY) || releaseEndsNs.containsKey(principal);
    }

    private void end(Hold hold, String why, long nowMs) {
        if (hold.isInForce) {
            if (ended.size() == MAX_RECORDS) {
                ended.remove();
            }
            hold.end = why;
            hold.endsMs = nowMs;
            ended.add(hold);
        }
    }

    /** Time until a hold or a release ends, at most {@code most}. */
    long leftNs(long nowNs, long most) {
        long left = most;
        for (Hold hold : holds.values()) {
            left = Math.min(left, hold.endsNs - nowNs);
        }
        for (long endsNs : releaseEndsNs.values()) {
            left = Math.min(left, endsNs - nowNs);
        }
        return Math.max(0, left);
    }

    /** Return a report's fields. Each hold that has ended is in one report. */
    JsonFields report(long offset) {
        List<String> held = new ArrayList<>();
        int chars = 0;
        ended.addAll(inForce.values());
        for (Hold hold : ended) {
            String fields = hold.fields();
            chars += fields.length();
            if (chars <= MAX_REPORT_CHARS) {
                held.add(fields);
            }
        }
        ended.clear();
        List<String> released = new ArrayList<>();
        for (String principal : releaseEndsNs.keySet()) {
            chars += principal.length();
            if (chars <= MAX_REPORT_CHARS) {
                released.add(principal);
            }
        }
        return new JsonFields().add("offset", offset).addObjects("held", held).addTexts("released", released)
            .add("ignored", ignored);
    }

    /** A hold on a principal, from the moment it comes into force until it ends. */
    static final class Hold {
        private final String principal;
        private final AtomicLong letInNs = new AtomicLong();
        private final LongAdder heldRequests = new LongAdder();
        private final LongAdder letIn = new LongAdder();
        private volatile long endsNs;
        private volatile long everyNs;
        private boolean isInForce;
        private String decisionId;
        private String writer;
        private String end = "";
        private long sinceMs;
        private long endsMs;

        private Hold(String principal) {
            this.principal = principal;
        }

        /** Create a hold that is not in force yet, like one that has ended. */
        private Hold(Hold like) {
            principal = like.principal;
            obey(like.decisionId, like.writer, like.everyNs, like.endsNs, like.endsMs);
        }

        private void obey(String newDecisionId, String newWriter, long newEveryNs, long newEndsNs, long newEndsMs) {
            decisionId = newDecisionId;
            writer = newWriter;
            everyNs = newEveryNs;
            endsNs = newEndsNs;
            endsMs = newEndsMs;
        }

        private void begin(long nowNs, long nowMs) {
            if (!isInForce) {
                isInForce = true;
                sinceMs = nowMs;
                letInNs.set(nowNs);
            }
        }

        /** Whether a request for a new producer id has to wait. One per {@code everyNs} passes. */
        boolean holdsBack(long nowNs) {
            if (nowNs - endsNs >= 0) {
                return false;
            }
            long lastNs = letInNs.get();
            if (everyNs > 0 && nowNs - lastNs >= everyNs && letInNs.compareAndSet(lastNs, nowNs)) {
                letIn.increment();
                return false;
            }
            heldRequests.increment();
            return true;
        }

        private String fields() {
            return new JsonFields().add("principal", principal).add("decision_id", decisionId).add("writer", writer)
                .add("since_ms", sinceMs).add("ends_ms", endsMs).add("held_requests", heldRequests.sum())
                .add("let_in", letIn.sum()).add("ended", end).toString();
        }
    }
}

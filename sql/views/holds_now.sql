-- Who is on hold now: the principals whose requests for a new producer id wait, until when, and who wrote it.
-- `hold` is held, written if no live broker confirms it yet, or released until `released_until`.
SELECT
    principal,
    hold,
    hold_ends AS until,
    CAST(greatest(0, unix_millis(hold_ends) - unix_millis(now)) / 1000.0 AS DOUBLE) AS seconds_left,
    held_since AS since,
    confirmed_brokers,
    live_brokers,
    held_requests,
    let_in,
    released_until,
    init_every_ms,
    writer,
    hold_reason AS reason,
    decision_id
FROM hold_status
CROSS JOIN settings
WHERE hold_ends IS NOT NULL
ORDER BY seconds_left DESC, principal

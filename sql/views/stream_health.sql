-- Whether the stream is alive and complete, in one row.
-- An idle stream writes no rows, so their absence alone is not an alarm. Compare it with the plugins (broker_coverage).
SELECT
    metrics.newest_row_at,
    CAST((unix_millis(now) - unix_millis(metrics.newest_row_at)) / 1000.0 AS DOUBLE) AS silent_seconds,
    metrics.principals,
    metrics.saturated_principals,
    metrics.learning_principals,
    (SELECT count(*) FROM current_throttles WHERE throttled_now) AS throttled_now,
    decisions.decisions_hour,
    metrics.refused_hour,
    metrics.late_hour,
    quarantine.quarantined_hour,
    quarantine.quarantined_total,
    metrics.newest_batch_id
FROM settings
CROSS JOIN (
    SELECT
        max(as_of) AS newest_row_at,
        count(DISTINCT CASE WHEN in_hour THEN principal END) AS principals,
        count(DISTINCT CASE WHEN in_hour AND saturated THEN principal END) AS saturated_principals,
        count(DISTINCT CASE WHEN in_hour AND phase = 'learning' THEN principal END) AS learning_principals,
        CAST(coalesce(sum(CASE WHEN in_hour THEN refused_pids END), 0) AS BIGINT) AS refused_hour,
        CAST(coalesce(sum(CASE WHEN in_hour THEN late_pids END), 0) AS BIGINT) AS late_hour,
        max(batch_id) AS newest_batch_id
    FROM (
        SELECT *, unix_millis(window_end) > unix_millis(now) - 3600000 AS in_hour
        FROM principal_metrics
        CROSS JOIN settings
    )
) AS metrics
CROSS JOIN (
    SELECT count(*) AS decisions_hour
    FROM throttle_decisions
    CROSS JOIN settings
    WHERE unix_millis(decided_at) > unix_millis(now) - 3600000
) AS decisions
CROSS JOIN (
    SELECT
        count(CASE WHEN unix_millis(record_timestamp) > unix_millis(now) - 3600000 THEN 1 END) AS quarantined_hour,
        count(*) AS quarantined_total
    FROM quarantined_events
    CROSS JOIN settings
) AS quarantine

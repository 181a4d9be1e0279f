-- Which brokers have no live plugin: their offenders are invisible.
-- Plugins report every 10 seconds, and reports reach the table within a minute. A plugin without a report for two
-- minutes counts as dead.
SELECT
    broker_id,
    reported_at IS NOT NULL
        AND NOT stopped
        AND problem IS NULL
        AND unix_millis(now) - unix_millis(reported_at) < 120000 AS watched_now,
    CAST((unix_millis(now) - unix_millis(reported_at)) / 1000.0 AS DOUBLE) AS silent_seconds,
    reported_at,
    last_seen_at AS seen_at,
    events,
    dropped_events,
    waiting_pids,
    problem,
    stopped,
    has_authorizer,
    plugin_version
FROM (
    SELECT *,
        max(seen_at) OVER (PARTITION BY broker_id) AS last_seen_at,
        row_number() OVER (PARTITION BY broker_id ORDER BY reported_at DESC NULLS LAST, batch_id DESC) AS newest
    FROM broker_status
    CROSS JOIN settings
)
WHERE newest = 1
ORDER BY watched_now, broker_id

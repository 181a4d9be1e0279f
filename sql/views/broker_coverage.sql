-- Which brokers have no live plugin: their offenders are invisible.
-- Plugins report every 10 seconds, and reports reach the table within a minute. A plugin without a report for two
-- minutes counts as dead.
SELECT
    brokers.broker_id,
    reports.reported_at IS NOT NULL
        AND NOT reports.stopped
        AND reports.problem IS NULL
        AND unix_millis(now) - unix_millis(reports.reported_at) < 120000 AS watched_now,
    CAST((unix_millis(now) - unix_millis(reports.reported_at)) / 1000.0 AS DOUBLE) AS silent_seconds,
    reports.reported_at,
    brokers.seen_at,
    reports.events,
    reports.dropped_events,
    reports.waiting_pids,
    reports.problem,
    reports.stopped,
    reports.has_authorizer,
    reports.plugin_version
FROM (
    SELECT broker_id, max(seen_at) AS seen_at
    FROM broker_status
    GROUP BY broker_id
) AS brokers
LEFT JOIN (
    SELECT *, row_number() OVER (PARTITION BY broker_id ORDER BY reported_at DESC, batch_id DESC) AS newest
    FROM broker_status
    WHERE reported_at IS NOT NULL
) AS reports ON reports.broker_id = brokers.broker_id AND reports.newest = 1
CROSS JOIN settings
ORDER BY watched_now, brokers.broker_id

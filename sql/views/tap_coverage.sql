-- Which brokers have no live tap: their offenders are invisible.
-- A tap watches nothing if its file is missing, or if the class in the broker is not loaded or sees nothing.
-- Taps report every 10 seconds, and reports reach the table within a minute. A tap without a report for two minutes
-- counts as dead.
SELECT
    brokers.broker_id,
    reports.reported_at IS NOT NULL
        AND NOT reports.stopped
        AND coalesce(reports.source, '') <> 'file: not there'
        AND reports.problem IS NULL
        AND unix_millis(now) - unix_millis(reports.reported_at) < 120000 AS watched_now,
    CAST((unix_millis(now) - unix_millis(reports.reported_at)) / 1000.0 AS DOUBLE) AS silent_seconds,
    reports.reported_at,
    brokers.seen_at,
    reports.host,
    reports.source,
    reports.events,
    reports.problem,
    reports.behind_bytes,
    reports.newest_line_at,
    reports.stopped
FROM (
    SELECT broker_id, max(seen_at) AS seen_at
    FROM tap_status
    GROUP BY broker_id
) AS brokers
LEFT JOIN (
    SELECT *, row_number() OVER (PARTITION BY broker_id ORDER BY reported_at DESC, batch_id DESC) AS newest
    FROM tap_status
    WHERE reported_at IS NOT NULL
) AS reports ON reports.broker_id = brokers.broker_id AND reports.newest = 1
CROSS JOIN settings
ORDER BY watched_now, brokers.broker_id

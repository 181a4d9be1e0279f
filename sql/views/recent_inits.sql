-- The answers to INIT_PRODUCER_ID of the last 24 hours; `client` is the client id without the number or UUID at its
-- end: Java numbers its producers (`producer-17`), and others generate an id each time.
SELECT
    classified_inits.*,
    unix_millis(answered_at) AS at_ms,
    regexp_replace(
        client_id, '([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{12,}|[0-9]+)$', '#'
    ) AS client
FROM classified_inits
CROSS JOIN settings
WHERE unix_millis(answered_at) > unix_millis(now) - 86400000
ORDER BY answered_at

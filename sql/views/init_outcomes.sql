-- Outcomes of the last 24 hours' requests for producer ids, by client, with the numbers of requests and addresses.
SELECT
    principal,
    client_id,
    outcome,
    error,
    count(*) AS answers,
    count(CASE WHEN is_new_pid THEN 1 END) AS new_pids,
    count(DISTINCT client_host) AS hosts,
    count(DISTINCT transactional_id) AS transactional_ids,
    max(answered_at) AS last_at
FROM classified_inits
CROSS JOIN settings
WHERE unix_millis(answered_at) > unix_millis(now) - 86400000
GROUP BY principal, client_id, outcome, error
ORDER BY answers DESC, principal, client_id, outcome, error

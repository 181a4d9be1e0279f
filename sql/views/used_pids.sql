-- When the producer ids of each principal were first and last used, from the newest sample of the last 24 hours in
-- producer_id_metrics, as of `as_of_ms`. The sample has one of `one_in` new producer ids. `transactional_id` is that of
-- an id that no answer to INIT_PRODUCER_ID has handed out two minutes after its first use, though its client has a
-- transactional id: a transaction's end (EndTxn) has handed it out, because the epochs of the id before were used up
-- (KIP-890).
SELECT
    uses.principal,
    uses.producer_id,
    uses.client_id,
    uses.first_used_ms,
    uses.last_used_ms,
    uses.one_in,
    uses.as_of_ms,
    CASE
        WHEN
            handed_out.result_producer_id IS NULL
            AND uses.first_used_ms > 0
            AND uses.first_used_ms < uses.as_of_ms - 120000
            THEN named.transactional_id
    END AS transactional_id
FROM (
    SELECT
        principal,
        one_in,
        as_of_ms,
        CAST(split_part(used, ' ', 1) AS BIGINT) AS producer_id,
        regexp_replace(used, '^[0-9]+ [0-9]+ [0-9]+ ', '') AS client_id,
        CAST(split_part(used, ' ', 2) AS BIGINT) AS first_used_ms,
        CAST(split_part(used, ' ', 3) AS BIGINT) AS last_used_ms
    FROM (
        SELECT
            principal,
            pid_uses_one_in AS one_in,
            unix_millis(as_of) AS as_of_ms,
            explode(split(pid_uses, ';')) AS used
        FROM (
            SELECT *, row_number() OVER (PARTITION BY principal ORDER BY as_of DESC, batch_id DESC) AS newest
            FROM producer_id_metrics
            CROSS JOIN settings
            WHERE pid_uses IS NOT NULL AND unix_millis(window_end) > unix_millis(now) - 86400000
        )
        WHERE newest = 1
    )
) AS uses
LEFT JOIN (
    SELECT DISTINCT result_producer_id FROM producer_inits WHERE error = 'NONE'
) AS handed_out ON handed_out.result_producer_id = uses.producer_id
LEFT JOIN (
    SELECT
        principal,
        client_id,
        max(transactional_id) AS transactional_id
    FROM producer_inits
    WHERE error = 'NONE' AND transactional_id IS NOT NULL
    GROUP BY principal, client_id
) AS named ON named.principal = uses.principal AND named.client_id = uses.client_id

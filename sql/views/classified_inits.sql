-- The answers to INIT_PRODUCER_ID, each once, with their outcomes (KIP-360). A retried request gets the same answer as
-- the first one. So a row with the same request and answer as an earlier row is a retry. `is_new_pid` is true if the
-- answer allocated a producer id, and not only an epoch.
SELECT
    answered_at,
    broker_id,
    principal,
    client_id,
    client_host,
    transactional_id,
    producer_id,
    producer_epoch,
    result_producer_id,
    result_producer_epoch,
    error,
    outcome,
    outcome IN ('first id', 'new id', 'expired id') AS is_new_pid
FROM (
    SELECT *,
        CASE
            WHEN error IN ('PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH') THEN 'fenced'
            WHEN error IN ('UNKNOWN_PRODUCER_ID', 'INVALID_PRODUCER_ID_MAPPING') THEN 'unknown producer'
            WHEN
                error IN (
                    'CLUSTER_AUTHORIZATION_FAILED',
                    'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
                    'INVALID_REQUEST',
                    'INVALID_TRANSACTION_TIMEOUT',
                    'UNSUPPORTED_VERSION'
                )
                THEN 'refused'
            WHEN error = 'THROTTLING_QUOTA_EXCEEDED' THEN 'throttled'
            WHEN
                error IN (
                    'CONCURRENT_TRANSACTIONS',
                    'COORDINATOR_LOAD_IN_PROGRESS',
                    'COORDINATOR_NOT_AVAILABLE',
                    'NOT_COORDINATOR',
                    'REQUEST_TIMED_OUT'
                )
                THEN 'busy'
            WHEN error <> 'NONE' THEN 'other error'
            WHEN transactional_id IS NULL AND producer_id < 0 THEN 'first id'
            WHEN transactional_id IS NULL THEN 'new id'
            -- Java's admin client asks only to fence (Admin.fenceProducers), and never writes.
            WHEN producer_id < 0 AND result_producer_epoch > 0 AND client_id LIKE '%adminclient%' THEN 'fence'
            WHEN producer_id < 0 AND result_producer_epoch > 0 THEN 'new instance'
            -- The coordinator has forgotten the transactional id (transactional.id.expiration.ms).
            WHEN producer_id < 0 AND coalesce(ids_before, 0) > 0 THEN 'expired id'
            WHEN producer_id < 0 THEN 'first id'
            WHEN asked > 1 THEN 'bump retry'
            WHEN result_producer_id = producer_id THEN 'epoch bump'
            -- A client that lives on asks with its own producer id, and has used up no epochs (Short.MAX_VALUE - 1).
            WHEN producer_epoch < 32765 THEN 'expired id'
            ELSE 'new id'
        END AS outcome
    FROM (
        SELECT *,
            row_number() OVER (
                PARTITION BY
                    transactional_id, producer_id, producer_epoch, result_producer_id, result_producer_epoch, error
                ORDER BY answered_at, batch_id
            ) AS asked,
            sum(CASE WHEN error = 'NONE' THEN 1 ELSE 0 END) OVER (
                PARTITION BY transactional_id, CASE WHEN transactional_id IS NULL THEN result_producer_id END
                ORDER BY answered_at, result_producer_id, result_producer_epoch, batch_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS ids_before
        FROM (
            SELECT *,
                row_number() OVER (
                    PARTITION BY answered_at, broker_id, result_producer_id, result_producer_epoch, error
                    ORDER BY batch_id
                ) AS copy
            FROM producer_inits
        )
        -- A plugin may write an answer twice. A producer id and epoch are given once, but errors may be equal.
        WHERE copy = 1 OR error <> 'NONE'
    )
)
ORDER BY answered_at, principal, client_id

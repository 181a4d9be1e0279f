-- Each answer to ALLOCATE_PRODUCER_IDS once: after a crash a tap sends rows again.
SELECT
    broker_id,
    broker_epoch,
    first_producer_id,
    length,
    allocated_at,
    error,
    throttle_time_ms,
    batch_id
FROM (
    SELECT *,
        row_number() OVER (
            PARTITION BY broker_id, broker_epoch, first_producer_id, length, allocated_at, error
            ORDER BY batch_id
        ) AS copy
    FROM pid_blocks
)
WHERE copy = 1
ORDER BY allocated_at, first_producer_id, broker_id

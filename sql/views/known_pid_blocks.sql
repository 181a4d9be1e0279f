-- The blocks of producer ids, each once: a tap that crashed or lost its position may write a block twice. Rows without
-- a block are errors that an earlier version wrote.
SELECT
    broker_id,
    broker_epoch,
    first_producer_id,
    length,
    allocated_at,
    batch_id
FROM (
    SELECT *,
        row_number() OVER (
            PARTITION BY broker_id, broker_epoch, first_producer_id, length, allocated_at
            ORDER BY batch_id
        ) AS copy
    FROM pid_blocks
    WHERE length > 0
)
WHERE copy = 1
ORDER BY allocated_at, first_producer_id, broker_id

-- Each block of producer ids once: a tap that crashed, or has lost its position, sends blocks again. Rows without a block
-- are errors, of an earlier version.
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

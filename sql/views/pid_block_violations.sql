-- Blocks of producer ids that break a promise of KIP-730: any row is an alert. `other` is what the block contradicts:
-- the end of the blocks before it, or a newer epoch of its broker. Controllers change and their clocks differ, so
-- blocks less than 10 seconds apart have no order. An overlap always counts.
SELECT
    CASE
        WHEN end_of_lower > first_producer_id THEN 'no overlap'
        WHEN end_of_earlier > first_producer_id THEN 'start >= last end'
    END AS promise,
    broker_id,
    broker_epoch,
    first_producer_id,
    length,
    allocated_at,
    CASE WHEN end_of_lower > first_producer_id THEN end_of_lower ELSE end_of_earlier END AS other
FROM (
    SELECT *,
        max(first_producer_id + length) OVER (
            ORDER BY first_producer_id, allocated_at, length, broker_id, broker_epoch
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS end_of_lower,
        max(first_producer_id + length) OVER (
            ORDER BY unix_millis(allocated_at) RANGE BETWEEN UNBOUNDED PRECEDING AND 10000 PRECEDING
        ) AS end_of_earlier
    FROM pid_blocks
)
WHERE end_of_lower > first_producer_id OR end_of_earlier > first_producer_id
UNION ALL
SELECT
    'epoch not stale' AS promise,
    broker_id,
    broker_epoch,
    first_producer_id,
    length,
    allocated_at,
    newest_epoch AS other
FROM (
    SELECT *,
        max(broker_epoch) OVER (
            PARTITION BY broker_id
            ORDER BY unix_millis(allocated_at) RANGE BETWEEN UNBOUNDED PRECEDING AND 10000 PRECEDING
        ) AS newest_epoch
    FROM pid_blocks
)
WHERE broker_epoch >= 0 AND broker_epoch < newest_epoch
ORDER BY allocated_at, first_producer_id, promise

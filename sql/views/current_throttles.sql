-- The latest decision on each principal, and whether it is in force. A throttle ends at throttled_until, with or
-- without a RELEASE row. `tokens_now` is extrapolated from the newest metrics row, as in quota_headroom, because tokens
-- may have been refilled and spent since the decision. If a row has no burst, its quota is the burst. `hold` and the
-- columns after it tell whether brokers enforce it (hold_status). `settings` is one row with now and window_ms.
SELECT
    decisions.principal,
    decisions.action = 'THROTTLE' AND decisions.throttled_until > now AS throttled_now,
    CAST(
        CASE
            WHEN decisions.action = 'THROTTLE' AND decisions.throttled_until > now
                THEN (unix_millis(decisions.throttled_until) - unix_millis(now)) / 1000.0
            ELSE 0
        END AS DOUBLE
    ) AS seconds_left,
    decisions.action,
    decisions.reason,
    decisions.decided_at,
    decisions.throttled_until,
    decisions.throttle_time_ms,
    decisions.tokens,
    CASE
        -- A row is as of the start of a tick. A row of the decision's own batch includes the decision.
        WHEN metrics.as_of >= decisions.decided_at OR metrics.batch_id >= decisions.batch_id
            THEN
                least(
                    coalesce(metrics.burst, metrics.quota),
                    metrics.tokens
                    + metrics.quota * greatest(0, unix_millis(now) - unix_millis(metrics.as_of)) / window_ms
                )
        ELSE
            least(
                coalesce(decisions.burst, decisions.quota),
                decisions.tokens
                + decisions.quota * greatest(0, unix_millis(now) - unix_millis(decisions.decided_at)) / window_ms
            )
    END AS tokens_now,
    decisions.quota,
    decisions.burst,
    decisions.quota_source,
    decisions.refused_pids,
    decisions.client_ids,
    decisions.addresses,
    decisions.sample_pids,
    decisions.decision_id,
    holding.hold,
    holding.held_since,
    holding.hold_ends,
    holding.hold_reason,
    holding.confirmed_brokers,
    holding.live_brokers,
    holding.held_requests,
    holding.let_in
FROM (
    SELECT *,
        -- A RELEASE and the next THROTTLE may have the same time; the THROTTLE is the later one.
        row_number() OVER (
            PARTITION BY principal ORDER BY decided_at DESC, batch_id DESC, action DESC
        ) AS newest
    FROM throttle_decisions
) AS decisions
LEFT JOIN (
    SELECT *, row_number() OVER (PARTITION BY principal ORDER BY as_of DESC, batch_id DESC) AS newest
    FROM producer_id_metrics
    WHERE principal IN (SELECT principal FROM throttle_decisions)
) AS metrics
    ON
        metrics.newest = 1
        AND metrics.principal = decisions.principal
LEFT JOIN hold_status AS holding ON holding.principal = decisions.principal
CROSS JOIN settings
WHERE decisions.newest = 1
ORDER BY seconds_left DESC, decisions.principal

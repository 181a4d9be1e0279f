"""Queries of the web console, with `:name` parameter markers."""

TOTALS = """
SELECT
    CAST(coalesce(sum(new_pids_window), 0) AS BIGINT) AS new_pids_window,
    CAST(coalesce(sum(active_pids), 0) AS BIGINT) AS active_pids,
    count(*) AS ledgers,
    count(CASE WHEN quota IS NULL THEN 1 END) AS without_quota,
    count(CASE WHEN used_share >= 0.8 THEN 1 END) AS near_quota
FROM quota_headroom
"""
INTERVALS = """
SELECT
    unix_millis(window_end) AS at_ms,
    CAST(sum(admitted_pids) AS BIGINT) AS admitted_pids,
    CAST(sum(refused_pids) AS BIGINT) AS refused_pids
FROM principal_metrics
WHERE unix_millis(window_end) > :since_ms
GROUP BY unix_millis(window_end)
ORDER BY at_ms
"""
THROTTLED = "SELECT * FROM current_throttles WHERE throttled_now ORDER BY seconds_left DESC, principal"
OFFENDERS = """
SELECT
    offenders.principal, offenders.refused_pids, offenders.admitted_pids, offenders.throttles,
    offenders.last_throttled_at, offenders.throttled_now, budget.share, budget.active_pids, budget.quota
FROM top_offenders AS offenders
INNER JOIN pid_budget AS budget ON budget.principal = offenders.principal
ORDER BY offenders.refused_pids DESC, budget.new_pids DESC, budget.active_pids DESC, offenders.principal
LIMIT 20
"""
HEADROOM = """
SELECT
    principal, quota, quota_source, new_pids_window, headroom_pids, used_share, tokens_now,
    throttle_time_ms_now, active_pids, phase, saturated, age_seconds
FROM quota_headroom
ORDER BY used_share DESC NULLS LAST, new_pids_window DESC, principal
LIMIT 2000
"""
LEDGER = "SELECT * FROM quota_headroom WHERE principal = :principal"
FIRST_ROW = "SELECT min(unix_millis(window_end)) AS first_ms FROM producer_id_metrics WHERE principal = :principal"
TIMELINE = """
SELECT
    CAST(ceil(unix_millis(line.window_end) / :step_ms) AS BIGINT) * :step_ms AS at_ms,
    CAST(sum(line.admitted_pids) AS BIGINT) AS admitted_pids,
    CAST(sum(line.refused_pids) AS BIGINT) AS refused_pids,
    CAST(sum(line.late_pids) AS BIGINT) AS late_pids,
    max(line.new_pids_window) AS new_pids_window,
    max_by(line.quota, line.window_end) AS quota,
    max_by(metrics.burst, line.window_end) AS burst,
    min(line.tokens) AS tokens,
    max(line.active_pids) AS active_pids,
    max(line.state_bytes) AS state_bytes,
    max(metrics.layers) AS layers
FROM principal_timeline AS line
INNER JOIN principal_metrics AS metrics
    ON metrics.principal = line.principal AND metrics.window_end = line.window_end
WHERE line.principal = :principal
GROUP BY at_ms
ORDER BY at_ms
"""
CHURN = "SELECT * FROM principal_churn WHERE principal = :principal ORDER BY new_pids DESC, client LIMIT 20"
OCCUPANCY = "SELECT * FROM occupancy_now ORDER BY held_pids DESC, broker_id, topic, principal"
HOLDERS = """
SELECT
    principal,
    CAST(sum(held_pids) AS BIGINT) AS entries,
    CAST(sum(estimated_bytes) AS BIGINT) AS estimated_bytes
FROM occupancy_now
GROUP BY principal
ORDER BY entries DESC, principal
LIMIT 200
"""
SWEEPS = """
SELECT unix_millis(swept_at) AS at_ms, broker_id, CAST(sum(held_pids) AS BIGINT) AS held_pids
FROM producer_occupancy
GROUP BY swept_at, broker_id
ORDER BY at_ms, broker_id
"""
NEWEST = "SELECT max(as_of) AS newest_row_at FROM producer_id_metrics"
NAMES = "SELECT DISTINCT principal FROM producer_id_metrics ORDER BY principal"
DECISIONS = "SELECT * FROM throttle_decisions ORDER BY decided_at DESC, batch_id DESC, action DESC LIMIT 1001"
HOLDS_NOW = "SELECT * FROM holds_now ORDER BY seconds_left DESC, principal LIMIT 1001"
HOLD_FACTS = """
SELECT *
FROM holds
WHERE unix_millis(recorded_at) > :since_ms
ORDER BY recorded_at DESC, batch_id DESC, state, principal, broker_id
LIMIT 1001
"""

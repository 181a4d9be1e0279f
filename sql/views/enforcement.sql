-- The leases of the enforcer, newest first: the lever, the principal, and whether the lease is in force.
SELECT
    lease_id,
    principal,
    entity_user,
    entity_client_id,
    entity_ip,
    lever,
    previous_value,
    new_value,
    state,
    state IN ('in_force', 'restoring') AS in_force_now,
    CAST(
        CASE
            WHEN state IN ('in_force', 'restoring')
                THEN greatest(0, unix_millis(until) - unix_millis(now)) / 1000.0
            ELSE 0
        END AS DOUBLE
    ) AS seconds_left,
    until,
    recorded_at,
    decision_id,
    reason
FROM (
    SELECT *, row_number() OVER (
        -- Rows that earlier versions wrote have no revision.
        PARTITION BY lease_id ORDER BY lease_revision DESC, recorded_at DESC, sequence DESC
    ) AS newest
    FROM enforcement_actions
    WHERE lease_id IS NOT NULL AND state NOT IN ('alert', 'release')
)
CROSS JOIN settings
WHERE newest = 1
ORDER BY recorded_at DESC, lease_id

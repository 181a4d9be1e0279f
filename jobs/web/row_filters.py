"""Which rows of the tables the console's pages read."""

from dataclasses import replace
from datetime import datetime, timedelta

from tables.store.values import RowFilter

HOLD_DAYS = 10
"""Days of facts about holds that a view reads. A release lasts at most 7 days."""
DAY_HOURS = 25
"""A day and an hour. The additional hour lets a view tell which windows began more than a day ago."""


def later_than(column: str, since: datetime, principal: str = "") -> RowFilter:
    """Return a filter for rows later than `since`, of all principals or of `principal`."""
    # The filters of a page share parameters, so the parameter's name contains the column.
    condition, values = f"{column} > :since_{column}", {f"since_{column}": since}
    if not principal:
        return RowFilter(condition, values)
    whose = "principal = :principal AND "
    return RowFilter(whose + condition, {"principal": principal, **values})


def recent_decisions(now: datetime) -> RowFilter:
    """Return a filter for the decisions of the last day, and for those in force."""
    condition = "decided_at > :day OR throttled_until > :present"
    return RowFilter(condition, {"day": now - timedelta(hours=DAY_HOURS), "present": now})


def present_holds(now: datetime, principal: str = "") -> dict[str, RowFilter]:
    """Return filters for the rows that tell who is on hold now, and which brokers are live."""
    since = now - timedelta(days=HOLD_DAYS)
    holds = later_than("recorded_at", since)
    if principal:
        # A release of everybody has no principal.
        condition = f"(principal = :principal OR principal IS NULL) AND {holds.condition}"
        holds = replace(holds, condition=condition, values={"principal": principal, **holds.values})
    # A plugin that has not reported for two minutes counts as dead.
    return {"holds": holds, "broker_status": later_than("seen_at", now - timedelta(hours=1))}


def last_day(now: datetime) -> dict[str, RowFilter]:
    """Return filters for the rows of the last day that tell what each principal used, and who is throttled."""
    return {
        "producer_id_metrics": later_than("window_end", now - timedelta(hours=DAY_HOURS)),
        "throttle_decisions": recent_decisions(now),
        **present_holds(now),
    }

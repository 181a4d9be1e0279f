"""Computes the report of a census."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from broker.occupancy.census import TakenCensus
from broker.occupancy.sweep import BrokerExpiration
from lifecycle.expiration_change import Freed, LostDedup, freed_by, lost_dedup
from lifecycle.failover import Failover, failovers
from lifecycle.forecast import Outlook
from lifecycle.occupancy import Census, Held, Occupancy, count_held, count_occupancy
from lifecycle.occupancy_rate import EarlierCensus, Rate, rates_of
from lifecycle.record_times import HangingTransaction, RecordTimes, hanging_transactions, odd_record_times
from quota.typed import typed

_HOUR_MS = 3_600_000
_ALTER = ("kafka-configs.sh", "--bootstrap-server")


@dataclass(frozen=True)
class Forecast:
    """A forecast of a broker's producer entries at a rate of `rate_pids` in `rate_seconds`.

    `rate_error` is the rate's relative standard error. The number of entries settles around `settles_at`, and varies by
    `swing` between expiration checks.
    """

    pids_per_hour: float
    rate_source: str
    rate_pids: int
    rate_seconds: float
    rate_error: float | None
    pids_in_1h: int
    pids_in_24h: int
    bytes_in_1h: int
    bytes_in_24h: int
    settles_at: int
    swing: float
    limit_reached_at: datetime | None


@dataclass(frozen=True)
class BrokerOutlook:
    """A broker's producer entries, now and later. The likeliest forecast comes first.

    `led_pids` counts entries of partitions that the broker leads. `held_pids` counts entries of all its replicas.
    """

    broker_id: int
    led_pids: int
    held_pids: int
    open_transactions: int
    estimated_bytes: int
    expiration_ms: int
    transactional_id_expiration_ms: int
    check_interval_ms: int
    missing_replicas: int
    forecasts: tuple[Forecast, ...]

    @property
    def likeliest(self) -> Forecast:
        """The forecast to plan with."""
        return self.forecasts[0]


@dataclass(frozen=True)
class WhatIf:
    """Effects of another expiration. `lost` has the producers that would lose deduplication."""

    expiration_ms: int
    freed: tuple[Freed, ...]
    lost: tuple[LostDedup, ...]
    commands: tuple[str, ...]


@dataclass(frozen=True)
class CensusReport:
    """The results of a census."""

    taken: TakenCensus
    occupancy: tuple[Occupancy, ...]
    held: tuple[Held, ...]
    brokers: tuple[BrokerOutlook, ...]
    failovers: tuple[Failover, ...]
    what_if: WhatIf | None
    record_times: tuple[RecordTimes, ...] = ()
    hanging: tuple[HangingTransaction, ...] = ()


def make_report(
    taken: TakenCensus,
    earlier: Mapping[int, Sequence[EarlierCensus]],
    *,
    limit: int | None = None,
    expiration_ms: int | None = None,
    bootstrap_servers: str = "localhost:9092",
) -> CensusReport:
    """Compute the report of a census."""
    census = taken.census
    occupancy = count_occupancy(census)
    brokers = tuple(_outlook(taken, each, occupancy, earlier, limit) for each in taken.expirations)
    what_if = None
    if expiration_ms is not None:
        commands = change_commands(taken.expirations, expiration_ms, bootstrap_servers)
        freed, lost = freed_by(census, expiration_ms), lost_dedup(census, expiration_ms)
        what_if = WhatIf(expiration_ms, tuple(freed), tuple(lost), tuple(commands))
    deaths = failovers(census) if len(brokers) > 1 else []
    held = tuple(count_held(census, occupancy))
    hanging = hanging_transactions(census, taken.transactional_ids)
    return CensusReport(
        *(taken, tuple(occupancy), held, brokers, tuple(deaths), what_if),
        record_times=tuple(odd_record_times(census)),
        hanging=tuple(hanging),
    )


def change_commands(expirations: Sequence[BrokerExpiration], expiration_ms: int, bootstrap_servers: str) -> list[str]:
    """Return the commands that set an expiration on all brokers."""
    begin = (*_ALTER, bootstrap_servers, "--entity-type", "brokers")
    end = ("--alter", "--add-config", f"producer.id.expiration.ms={expiration_ms}")
    entities: list[tuple[str, ...]] = [("--entity-default",)]
    entities += [("--entity-name", str(each.broker_id)) for each in expirations if each.is_own]
    return [typed((*begin, *entity, *end)) for entity in entities]


def _outlook(
    taken: TakenCensus,
    settings: BrokerExpiration,
    occupancy: Sequence[Occupancy],
    earlier: Mapping[int, Sequence[EarlierCensus]],
    limit: int | None,
) -> BrokerOutlook:
    broker_id, census = settings.broker_id, taken.census
    mine = [each for each in occupancy if each.broker_id == broker_id]
    rates = rates_of(census, broker_id, earlier.get(broker_id, ()))
    held = census.held(broker_id)
    return BrokerOutlook(
        broker_id,
        sum(each.led_pids for each in mine),
        held,
        sum(each.open_transactions for each in mine),
        census.bytes_of(held),
        settings.producer_id_ms,
        settings.transactional_id_ms,
        settings.check_interval_ms,
        taken.missing.get(broker_id, 0),
        tuple(_forecast(census, broker_id, rate, limit) for rate in rates.likeliest_first),
    )


def _forecast(census: Census, broker_id: int, rate: Rate, limit: int | None) -> Forecast:
    outlook = Outlook(census, broker_id, rate)
    now = datetime.fromtimestamp(census.taken_at_ms / 1000, tz=timezone.utc)
    reached_ms = None if limit is None else 0.0 if census.held(broker_id) >= limit else outlook.reaches(limit)
    soon, tomorrow = outlook.held_in(_HOUR_MS), outlook.held_in(24 * _HOUR_MS)
    return Forecast(
        rate.pids_per_hour,
        rate.source,
        rate.counted,
        rate.span_ms / 1000,
        rate.error_share,
        soon,
        tomorrow,
        census.bytes_of(soon),
        census.bytes_of(tomorrow),
        outlook.settles_at,
        outlook.swing,
        None if reached_ms is None else now + timedelta(milliseconds=reached_ms),
    )

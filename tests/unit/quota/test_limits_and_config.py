import pytest

from quota.allowance import BURST, RATE, Allowance
from quota.config import QuotaConfig
from quota.errors import InvalidConfigError, InvalidPrincipalError, InvalidQuotaError
from quota.principals import entity_name


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e12])
def test_a_rate_that_cannot_be_a_quota_is_refused_with_its_value(rate: float) -> None:
    with pytest.raises(InvalidQuotaError, match=f"producer_ids_rate={rate} is not a quota"):
        Allowance(rate)


@pytest.mark.parametrize("burst", [0.0, -1.0, float("nan"), float("inf"), 1e12])
def test_a_burst_out_of_range_is_refused(burst: float) -> None:
    with pytest.raises(InvalidQuotaError, match="is no burst: it must be a number above 0"):
        Allowance.parse({RATE: 5.0, BURST: burst})


def test_a_burst_that_no_float_holds_is_not_taken_for_none() -> None:
    with pytest.raises(InvalidQuotaError, match="producer_ids_burst=inf is no burst"):
        Allowance.parse({RATE: 5.0, BURST: 10**400})


def test_a_burst_without_a_rate_is_refused() -> None:
    with pytest.raises(InvalidQuotaError, match="has no producer_ids_rate: set both"):
        Allowance.parse({BURST: 5.0})


def test_a_window_that_cannot_be_cut_into_whole_quanta_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match="choose a layer count that divides the window"):
        QuotaConfig(window_seconds=1, layer_count=7)


@pytest.mark.parametrize("seconds", [59.9, 0, -1, 3_600_001, float("nan"), float("inf")])
def test_a_longest_throttle_below_the_shortest_or_without_an_end_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidConfigError, match=f"max_throttle_seconds={seconds} .* at least min_throttle_seconds=60"):
        QuotaConfig(max_throttle_seconds=seconds)


@pytest.mark.parametrize(
    ("config", "longest_ms"),
    [
        (QuotaConfig(), 3_600_000),
        (QuotaConfig(max_throttle_seconds=60), 60_000),
        (QuotaConfig(max_throttle_seconds=7200.5), 7_200_500),
        (QuotaConfig(window_seconds=4), 60_000),
    ],
)
def test_the_longest_throttle_is_the_window_unless_it_is_given_or_the_shortest_one_is_longer(
    config: QuotaConfig, longest_ms: int
) -> None:
    assert config.max_throttle_ms == longest_ms


@pytest.mark.parametrize("principal", ["", "alice", "User:", ":alice"])
def test_a_principal_without_type_or_name_is_refused(principal: str) -> None:
    with pytest.raises(InvalidPrincipalError, match="is not of the form"):
        entity_name(principal)

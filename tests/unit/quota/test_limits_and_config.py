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
        Allowance.of({RATE: 5.0, BURST: burst})


def test_a_burst_that_no_float_holds_is_not_taken_for_none() -> None:
    with pytest.raises(InvalidQuotaError, match="producer_ids_burst=inf is no burst"):
        Allowance.of({RATE: 5.0, BURST: 10**400})


def test_a_burst_without_a_rate_is_refused() -> None:
    with pytest.raises(InvalidQuotaError, match="has no producer_ids_rate: set both"):
        Allowance.of({BURST: 5.0})


def test_a_window_that_cannot_be_cut_into_whole_quanta_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match="choose a layer count that divides the window"):
        QuotaConfig(window_seconds=1, layer_count=7)


@pytest.mark.parametrize("principal", ["", "alice", "User:", ":alice"])
def test_a_principal_without_type_or_name_is_refused(principal: str) -> None:
    with pytest.raises(InvalidPrincipalError, match="is not of the form"):
        entity_name(principal)

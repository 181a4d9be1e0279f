import pytest

from quota.allowance import Allowance
from quota.config import QuotaConfig
from quota.errors import InvalidConfigError, InvalidPrincipalError, InvalidQuotaError
from quota.principals import entity_name


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e12])
def test_a_rate_that_cannot_be_a_quota_is_refused_with_its_value(rate: float) -> None:
    with pytest.raises(InvalidQuotaError, match=f"producer_ids_rate={rate} is not a quota"):
        Allowance(rate)


def test_a_window_that_cannot_be_cut_into_whole_quanta_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match="choose a layer count that divides the window"):
        QuotaConfig(window_seconds=1, layer_count=7)


@pytest.mark.parametrize("principal", ["", "alice", "User:", ":alice"])
def test_a_principal_without_type_or_name_is_refused(principal: str) -> None:
    with pytest.raises(InvalidPrincipalError, match="is not of the form"):
        entity_name(principal)

import pytest

from quota.config import QuotaConfig
from quota.rate import SampledRate

CONFIG = QuotaConfig()
HOUR_MS = 3_600_000


def test_a_steady_stream_of_pids_shows_its_rate_per_window() -> None:
    rate = SampledRate()
    for minute in range(60 * 24):
        rate.record(1, CONFIG, minute * 60_000)

    assert rate.measure(CONFIG, 24 * HOUR_MS) == pytest.approx(60, rel=0.02)
    assert len(rate.samples) == CONFIG.window_num + 1

import pytest

from quota.config import QuotaConfig
from quota.rate import SampledRate

CONFIG = QuotaConfig()
HOUR_MS = 3_600_000


def test_a_young_rate_is_averaged_over_all_but_one_sample() -> None:
    rate = SampledRate()
    rate.record(110, CONFIG, 0)

    assert rate.measure(CONFIG, 0) == 11.0
    assert rate.measure(CONFIG, HOUR_MS // 2) == pytest.approx(110 / 10.5)


def test_records_older_than_all_samples_no_longer_count() -> None:
    rate = SampledRate()
    rate.record(110, CONFIG, 0)

    assert rate.measure(CONFIG, 11 * HOUR_MS - 1) > 0
    assert rate.measure(CONFIG, 11 * HOUR_MS) == 0.0


def test_a_steady_stream_of_pids_shows_its_rate_per_window() -> None:
    rate = SampledRate()
    for minute in range(60 * 24):
        rate.record(1, CONFIG, minute * 60_000)

    assert rate.measure(CONFIG, 24 * HOUR_MS) == pytest.approx(60, rel=0.02)
    assert len(rate.samples) == CONFIG.window_num + 1

import pytest

from broker.enforcement.clock import BrokersTime, ClockSteps, Deadlines
from broker.enforcement.model import CLOCK_SLACK_MS, MAX_LEASE_MS


class Clock:
    def __init__(self, ms: int) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def wall() -> Clock:
    """This host's clock, an hour behind the brokers'."""
    return Clock(1_000_000)


@pytest.fixture
def steady() -> Clock:
    return Clock(500)


@pytest.fixture
def time(wall: Clock, steady: Clock) -> BrokersTime:
    return BrokersTime(wall, steady)


class TestTheBrokersTime:
    def test_is_this_host_s_until_it_is_measured(self, time: BrokersTime, steady: Clock) -> None:
        assert (time.now_ms(), time.skew_ms()) == (1_000_000, 0)
        steady.ms += 250
        assert time.now_ms() == 1_000_250

    @pytest.mark.parametrize("is_measured", [False, True])
    @pytest.mark.parametrize("set_by_ms", [-86_400_000, 86_400_000])
    def test_stays_when_this_host_s_clock_is_set(
        self, time: BrokersTime, wall: Clock, set_by_ms: int, is_measured: bool
    ) -> None:
        if is_measured:
            time.measured(500, 4_600_000, 500)
        before_ms, skew_ms = time.now_ms(), time.skew_ms()
        wall.ms += set_by_ms
        assert (time.now_ms(), time.skew_ms()) == (before_ms, skew_ms - set_by_ms)

    @pytest.mark.parametrize(
        ("sent_ms", "broker_ms", "received_ms", "now_ms"),
        [
            (500, 4_600_000, 500, 4_600_000),
            # It was 4,600,000 at some time between 400 and 500: by now it is at least that, and at most 100 more.
            (400, 4_600_000, 500, 4_600_000),
            (400, 400_000, 500, 400_100),
            # What the way took explains the difference.
            (400, 999_950, 500, 1_000_000),
            (400, 999_900, 500, 1_000_000),
            (400, 1_000_000, 500, 1_000_000),
            (400, 999_899, 500, 999_999),
            (400, 1_000_001, 500, 1_000_001),
        ],
    )
    def test_is_moved_no_further_than_a_measurement_proves(
        self, time: BrokersTime, sent_ms: int, broker_ms: int, received_ms: int, now_ms: int
    ) -> None:
        time.measured(sent_ms, broker_ms, received_ms)
        assert time.now_ms() == now_ms

    def test_goes_on_with_the_monotonic_clock_between_measurements(self, time: BrokersTime, steady: Clock) -> None:
        time.measured(500, 4_600_000, 500)
        steady.ms += 30_000
        assert time.now_ms() == 4_630_000
        time.measured(steady.ms, 4_630_007, steady.ms)
        assert time.now_ms() == 4_630_007

    def test_tells_how_far_it_is_off_this_host_s(self, time: BrokersTime) -> None:
        time.measured(500, 4_600_000, 500)
        assert time.skew_ms() == 3_600_000
        time.measured(500, 400_000, 500)
        assert time.skew_ms() == -600_000


class TestDeadlines:
    @pytest.fixture
    def deadlines(self, steady: Clock) -> Deadlines:
        return Deadlines(steady)

    def test_are_where_a_decision_says(self, deadlines: Deadlines, steady: Clock) -> None:
        assert deadlines.end_ms("d", 60_000, 0) == 60_000
        steady.ms += 60_000
        assert deadlines.end_ms("d", 60_000, 60_000) == 60_000

    def test_do_not_move_for_milliseconds_between_two_clocks(self, deadlines: Deadlines, steady: Clock) -> None:
        deadlines.end_ms("d", 60_000, 0)
        steady.ms += 5_000
        assert deadlines.end_ms("d", 60_000, 0) == 60_000
        steady.ms += 1
        assert deadlines.end_ms("d", 60_000, 0) == 54_999

    def test_come_by_the_monotonic_clock_although_the_brokers_time_was_set_back(
        self, deadlines: Deadlines, steady: Clock
    ) -> None:
        deadlines.end_ms("d", 60_000, 0)
        steady.ms += 59_999
        assert deadlines.end_ms("d", 60_000, -86_400_000) == -86_399_999
        steady.ms += 1
        assert deadlines.end_ms("d", 60_000, -86_400_000) == -86_400_000

    def test_that_came_nearer_stay_there(self, deadlines: Deadlines, steady: Clock) -> None:
        deadlines.end_ms("d", 60_000, 0)
        # The brokers' time jumps ahead and back, or a shorter end is taken back.
        deadlines.end_ms("d", 60_000, 50_000)
        steady.ms += 9_000
        assert deadlines.end_ms("d", 60_000, 9_000) == 10_000

    def test_are_never_further_away_than_the_longest_lease(self, deadlines: Deadlines) -> None:
        assert deadlines.end_ms("d", 10**12, 0) == MAX_LEASE_MS

    def test_of_one_decision_do_not_end_another(self, deadlines: Deadlines, steady: Clock) -> None:
        deadlines.end_ms("d", 60_000, 0)
        steady.ms += 60_000
        assert deadlines.end_ms("e", 120_000, 60_000) == 120_000

    def test_are_forgotten_with_their_decision(self, deadlines: Deadlines, steady: Clock) -> None:
        for name in ("d", "e"):
            deadlines.end_ms(name, 60_000, 0)
        deadlines.retain(["e"])
        steady.ms += 60_000
        assert [deadlines.end_ms(name, 60_000, 0) for name in ("d", "e")] == [60_000, 0]


def test_small_steps_back_do_not_add_up(steady: Clock) -> None:
    brokers = Clock(5_000_000)
    steps = ClockSteps(lambda: (brokers.ms, steady.ms))
    steps.start(brokers.ms)
    for _ in range(5):
        brokers.ms -= CLOCK_SLACK_MS
        assert steps.set_back_ms() == 0

"""The exit code of each cause: 2 only if another start helps no one until a person has changed something."""

import pytest

from broker import errors as broker
from jobs import errors as jobs
from jobs.output.terminal import OUR_ERRORS, exit_code_of
from jvm import errors as jvm
from quota import errors as quota
from state import errors as state
from streaming import errors as streaming
from tables import errors as tables

LASTING = {
    broker.KafkaConfigError,
    broker.RequestNotAllowedError,
    jobs.WrongSettingError,
    jvm.JarsError,
    jvm.JavaError,
    quota.InvalidConfigError,
    streaming.SessionError,
    streaming.SparkMissingError,
    streaming.WindowTooShortError,
    tables.TableVersionError,
}
"""The causes with code 2, beside wrong options and what else is wrong with a checkpoint."""
PASSING = {
    broker.BrokerUnreachableError,
    broker.LoginRefusedError,
    broker.TopicMissingError,
    jobs.AddressTakenError,
    streaming.CheckpointInUseError,
    tables.TableError,
}
"""Some causes that may end by themselves."""


@pytest.mark.parametrize(("errors", "code"), [(LASTING, 2), (PASSING, 1)])
def test_a_cause_has_its_code(errors: set[type[Exception]], code: int) -> None:
    assert {each.__name__: exit_code_of(each()) for each in errors} == {each.__name__: code for each in errors}


def test_no_other_cause_keeps_a_service_down() -> None:
    kinds = [kind for module in (broker, jobs, jvm, quota, state, streaming, tables) for kind in vars(module).values()]
    ours = {each for each in kinds if isinstance(each, type) and issubclass(each, OUR_ERRORS)}
    lasting = {each for each in ours if exit_code_of(each()) == 2}
    assert {each for each in lasting if not issubclass(each, streaming.CheckpointError)} == LASTING

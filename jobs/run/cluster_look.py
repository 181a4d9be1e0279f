"""What `pid-quota run` knows of the brokers, by looking for them and their plugins."""

import json
from typing import Any, Literal

from jobs.errors import WrongSettingError
from jobs.output.terminal import WRONG_SETTING
from jobs.run import commands
from jobs.run.log import RunLog
from jobs.run.settings import RunSettings
from jobs.run.tasks import Task
from jobs.services.steady_clock import SteadyClock

_LOOK_LIMIT_S = 90.0
_AGAIN_S = 5.0
_REFUSED_AGAIN_S = 30.0
_PATIENCE_S = 30.0
"""Brokers that have just started make the plugin's topics within this time."""
_PLUGIN_AGAIN_S = 60.0


class ClusterLook:
    """Looks until brokers answer and load the plugin, and again when the stream has ended.

    Attributes:
        state: `unknown`, `away` (no broker answers), `bare` (they load no plugin) or `ready`.
        reason: why the state is not `ready`.
    """

    def __init__(self, settings: RunSettings, log: RunLog, clock: SteadyClock) -> None:
        self._settings, self._log = settings, log
        self.task = Task("look", lambda: commands.look(settings), clock, limit_s=_LOOK_LIMIT_S)
        self.state: Literal["unknown", "away", "bare", "ready"] = "unknown"
        self.reason = "it looks for the brokers"
        self._has_answered = self._is_refused = False
        self._without_since_s: float | None = None

    def look_again(self) -> None:
        """Look, because the stream has ended and the brokers may be the reason."""
        if self.state == "ready":
            self.state, self.reason = "unknown", "it looks for the brokers"
            self.task.run_again()

    def settings_changed(self) -> None:
        """Look at once, because a file of the client's settings has changed."""
        if self.state != "ready":
            self.task.run_again()

    def turn(self, now_s: float, *, is_wanted: bool) -> None:
        """Look if it is time.

        Raises:
            WrongSettingError: If the settings of the first look are wrong whatever the brokers say.
        """
        done = self.task.turn(now_s, is_wanted=is_wanted)
        if done is None:
            return
        if done.exit_code == WRONG_SETTING and not self._has_answered:
            raise WrongSettingError(done.error)
        found = next((each for each in reversed(done.lines) if each.startswith("{")), "")
        if done.exit_code or not found:
            self._away(done.error or "the look for the brokers printed nothing", is_refused=True)
        else:
            self._take(json.loads(found), now_s)

    def _take(self, found: dict[str, Any], now_s: float) -> None:
        if found["unreachable"]:
            self._away(found["unreachable"], is_refused=False)
            return
        if self.state == "away":
            self._log.say("the brokers answer")
            self.state = "unknown"
        self._has_answered = True
        if found["no_plugin"]:
            self._without_plugin(found["no_plugin"], now_s)
            return
        if self.state == "bare":
            self._log.say("the brokers load the plugin now: the stream starts")
        self.state, self.reason, self._without_since_s = "ready", "", None

    def _away(self, error: str, *, is_refused: bool) -> None:
        if self.state != "away" or is_refused != self._is_refused:
            self._log.say(f"{error}; it tries again")
        self.state, self.reason, self._without_since_s = "away", error, None
        self._is_refused = is_refused
        self.task.run_again(_REFUSED_AGAIN_S if is_refused else _AGAIN_S)

    def _without_plugin(self, why: str, now_s: float) -> None:
        self._without_since_s = now_s if self._without_since_s is None else self._without_since_s
        if self.state != "bare" and now_s - self._without_since_s < _PATIENCE_S:
            self.reason = f"it waits for the brokers' plugin ({why})"
            self.task.run_again(_AGAIN_S)
            return
        if self.state != "bare":
            self._log.say(
                f"the brokers load no plugin ({why}): quotas don't work there, and a census of producer ids is taken "
                "every ten minutes (docs/platforms.md)"
            )
        self.state, self.reason = "bare", why
        self.task.run_again(_PLUGIN_AGAIN_S)

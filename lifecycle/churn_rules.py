"""Diagnoses why a client keeps requesting producer ids.

The tables hold the requests for producer ids and a sample of the ids' uses; brokers know all uses. `CAUSES` is the
table of rules: a function per cause tells how well the evidence fits. The first likely cause is the diagnosis; the
possible ones are its alternatives. `healthy` means that the ids are too few to harm a broker. `lifecycle.churn_fixes`
has the fixes.
"""

from collections.abc import Callable
from enum import IntEnum

from lifecycle.churn import Churn, Diagnosis
from lifecycle.churn_evidence import JAVA_DEFAULT, MAX_POOL, MIN_NEW_PIDS, ChurnEvidence
from lifecycle.producer_lives import Lives

MAX_CALM_PIDS = 24
RARE_STEP_SECONDS = 1800.0
"""Groups of ids that are at least this far apart on average are deploys, not checkpoints or crashing replicas."""
DEPLOY_STEP_SECONDS = 7200.0
"""Groups at least this far apart on average are likely deploys, not jobs or supervisors."""
MIN_STEPS_OF_LEAK = 5
"""Fewer groups of ids that stay in use may be the waves of a roll-out."""
REGULAR_SPREAD = 0.5
ERROR_SHARE = 0.5
MIN_ERRORS = 5
"""A client with at least this many errors, and more errors than ids, retries in vain."""
MIN_RETURNS = 3
"""If a producer takes a transactional id back from another producer this often, the two may be rivals."""
MANY_RETURNS = 10
RETURNS_SHARE = 0.25
"""Rivals take an id back nearly each time. The producers of a pool hardly ever do."""
RETURN_SECONDS = 600.0
"""Rivals take over an id at shorter intervals than this. A deploy takes longer to bring an id back to a host."""
INSTANCE_SECONDS = 60.0
"""A client that takes over its transactional id at shorter intervals than this restarts in a loop or has a rival."""
ROTATION_SECONDS = 30.0
"""At a thousand commits a second, the epochs of an id last for this long."""
KEPT_SHARE = 0.8
SURELY_KEPT_SHARE = 0.95
SURELY_KEPT_SECONDS = 300.0
SESSION_SECONDS = 3600.0
"""A producer per session or process may be in use for up to this long."""
MIN_LEAKED_PIDS = 40
MIN_LEAKED_PER_HOST = 20
"""An address that keeps more ids than this has one process that leaks rather than a process for each id."""
ENDED_SHARE = 0.9
BRIEF_SECONDS = 60.0
"""Ids of a deploy, and leaked ids, are in use for longer than this."""
REPLACED_SHARE = 0.5
"""After a deploy, at least this share of the ended ids ended when the next ids began."""
WORK_SECONDS = 1.0
"""An id in use for this long sent more than one batch."""
MIN_RESTARTS = 8
"""An address on which producers end and begin this often, one at a time, has a process that restarts."""
RANDOM_SPREAD = 1.0
"""Messages that come at random have waits with a spread of 1.6..."""
VARIED_SPREAD = 0.3
"""...and restarts, after work of varying length and an equal wait, one between these."""
MIN_UNUSED = 12
UNUSED_SECONDS = 180.0
MAX_POOL_TURNS = 8
"""A pool of transactional ids per subtask is smaller than these, and full after this time or this many turns."""
MAX_QUICK_DEPLOYS = 4
"""More groups, less than half an hour apart, are those of replicas that crash together."""
_RIVALS = (Churn.RESTART_LOOP, Churn.FENCING_WAR)


class Fit(IntEnum):
    """How well a cause fits the evidence. NONE: it never leaves such evidence."""

    NONE = 0
    UNLIKELY = 1
    POSSIBLE = 2
    LIKELY = 3
    CERTAIN = 4


def expired_idle(e: ChurnEvidence) -> Fit:
    """Transactional ids come back after the coordinator has forgotten them."""
    if not e.expired_ids:
        return Fit.NONE
    explains = e.new_pids >= MIN_NEW_PIDS and e.expired_ids >= (e.new_pids - e.transactional_ids) / 2
    return Fit.CERTAIN if explains else Fit.POSSIBLE


def fencing_war(e: ChurnEvidence) -> Fit:
    """Producers take a transactional id from each other again and again, and nobody fences them in between."""
    seconds = e.instance_seconds or 0.0
    if e.fences >= max(1, e.instances / 2):
        return Fit.NONE
    often = e.returns >= max(MIN_RETURNS, RETURNS_SHARE * e.instances)
    if (e.fenced_answers >= 2 and e.instances >= MIN_RETURNS) or (
        often and e.returns >= MANY_RETURNS and seconds < INSTANCE_SECONDS
    ):
        return Fit.CERTAIN
    if often:
        # A task that fails on one worker may restart on another worker.
        return Fit.LIKELY if seconds < RETURN_SECONDS else Fit.POSSIBLE
    # Rivals that share an address and a client id look like one that restarts, or like a pool.
    return Fit.POSSIBLE if e.instances >= MIN_NEW_PIDS and seconds < INSTANCE_SECONDS else Fit.NONE


def on_error(e: ChurnEvidence) -> Fit:
    """Errors come before most ids, or instead of ids."""
    in_vain = e.error_answers >= MIN_ERRORS and e.error_answers > e.new_pids
    before = e.new_pids >= MIN_NEW_PIDS and e.errors_before_share >= ERROR_SHARE
    return Fit.LIKELY if in_vain or before else Fit.NONE


def rotation(e: ChurnEvidence) -> Fit:
    """EndTxn hands out ids that nobody asked for, and each is in use for as long as its epochs last."""
    if not e.rotations:
        return Fit.NONE
    lasting = e.rotation_seconds is not None and e.rotation_seconds >= ROTATION_SECONDS
    return Fit.CERTAIN if lasting and e.rotations >= e.new_pids else Fit.POSSIBLE


def few_ids(e: ChurnEvidence) -> Fit:
    """Too few new ids to harm a broker, or a pool of transactional ids that are used in turn."""
    if e.new_pids < MIN_NEW_PIDS or (e.is_transactional and e.is_reused):
        return Fit.LIKELY
    if e.grows:
        return Fit.UNLIKELY
    started = e.is_start and (not e.throttles if e.lives is None else e.lives.kept_share >= KEPT_SHARE)
    is_kept_pool = e.is_slow_pool and e.lives is not None and e.lives.kept_share >= KEPT_SHARE
    is_calm = e.is_rare and e.new_pids <= MAX_CALM_PIDS
    if is_calm or started or is_kept_pool:
        return Fit.LIKELY
    is_filling = e.is_transactional and not e.names_anew and e.new_pids < MAX_POOL
    return Fit.POSSIBLE if e.is_single_group or e.is_rare or e.is_pool or is_filling else Fit.UNLIKELY


def new_transactional_id(e: ChurnEvidence) -> Fit:
    """Each new id has a new transactional id, and none is used again."""
    if not e.is_transactional:
        return Fit.NONE
    if e.names_anew or e.is_reused or _surely_kept(e):
        return Fit.UNLIKELY
    if e.lives is None:
        lasting = e.new_pids >= MIN_UNUSED and e.span_seconds >= UNUSED_SECONDS and not e.is_in_steps
    else:
        # A pool of transactional ids looks like this until each id was used once.
        turn_seconds = max(e.lives.used_seconds, e.lives.precision_seconds / 3)
        lasting = e.lives.kept_share <= 1 - REPLACED_SHARE and e.span_seconds >= MAX_POOL_TURNS * turn_seconds
    return Fit.LIKELY if lasting else Fit.POSSIBLE


def restart_loop(e: ChurnEvidence) -> Fit:
    """A process ends again and again, and its supervisor starts it again after a growing or an equal wait."""
    if e.grows:
        return Fit.LIKELY
    if e.counts_up or _surely_kept(e) or (_brief(e) and e.is_flood):
        # The client ids of one process count up. A new process would start at 1 again.
        return Fit.UNLIKELY
    if e.lives is None or e.lives.kept_share >= KEPT_SHARE:
        return Fit.POSSIBLE
    single = not (e.lives.on_schedule or e.is_in_steps or e.is_fleet or e.is_fast or e.is_at_once or e.is_transactional)
    # Each id is the first producer of a new process, and these come at regular intervals.
    is_first = e.client == JAVA_DEFAULT and e.client_ids == 1
    anew = single and is_first and e.life_spread is not None and e.life_spread <= REGULAR_SPREAD
    varied = single and VARIED_SPREAD <= (e.life_spread or 0.0) < RANDOM_SPREAD
    supervised = e.lives.used_seconds >= max(WORK_SECONDS, e.lives.precision_seconds) and _is_supervised(e.lives)
    named_anew = e.is_transactional and e.names_anew and e.lives.kept_share <= 1 - KEPT_SHARE
    return (
        Fit.LIKELY
        if ((anew or varied) and _brief(e)) or supervised or named_anew or _is_one_at_a_time(e)
        else Fit.POSSIBLE
    )


def deploy(e: ChurnEvidence) -> Fit:
    """Groups of ids, each of which ends as the next one begins."""
    if e.counts_up or e.is_crowded:
        return Fit.UNLIKELY
    if e.lives is None:
        return Fit.LIKELY if e.has_steps_apart(DEPLOY_STEP_SECONDS) else Fit.POSSIBLE
    lasted = e.lives.used_seconds + e.lives.precision_seconds >= BRIEF_SECONDS
    replaced = e.lives.replaced_share >= REPLACED_SHARE and lasted
    if replaced and e.is_in_steps and (e.has_steps_apart(RARE_STEP_SECONDS) or e.steps <= MAX_QUICK_DEPLOYS):
        return Fit.LIKELY
    like_deploys = e.is_fleet or e.has_steps_apart(RARE_STEP_SECONDS) or e.is_single_group
    return Fit.UNLIKELY if _brief(e) and not like_deploys else Fit.POSSIBLE


def scale_out(e: ChurnEvidence) -> Fit:
    """Many processes each open a producer that stays in use, and no more come."""
    if deploy(e) is Fit.UNLIKELY or (e.lives is not None and e.lives.replaced_share >= REPLACED_SHARE):
        return Fit.UNLIKELY
    if e.is_transactional and e.is_reused:
        return Fit.UNLIKELY
    if e.lives is None:
        return Fit.LIKELY if e.is_fleet and not e.goes_on else Fit.POSSIBLE
    kept = e.lives.kept_share >= KEPT_SHARE and not e.is_start
    return Fit.LIKELY if kept and (e.is_fleet or not e.goes_on) else Fit.POSSIBLE


def leak(e: ChurnEvidence) -> Fit:
    """One process opens producers again and again, and all stay in use."""
    if _brief(e) and e.is_flood:
        return Fit.UNLIKELY
    if e.lives is None or e.lives.kept_share < KEPT_SHARE:
        return Fit.POSSIBLE
    if _surely_kept(e) and e.is_start and not e.goes_on:
        return Fit.UNLIKELY
    many = e.new_pids >= max(MIN_LEAKED_PIDS, MIN_LEAKED_PER_HOST * e.hosts)
    one_process = e.counts_up or (e.counts_on and e.goes_on)
    is_in_waves = e.is_in_steps and e.steps < MIN_STEPS_OF_LEAK
    likely = not e.is_slow_pool and (one_process or (many and e.goes_on and not is_in_waves))
    return Fit.LIKELY if likely else Fit.POSSIBLE


def per_message(e: ChurnEvidence) -> Fit:
    """Each id is used for a moment only, at times that no supervisor has."""
    if e.is_transactional:
        return Fit.NONE
    if e.lives is None:
        at_random = not e.is_in_steps and e.goes_on and not e.is_fleet
        return Fit.LIKELY if e.is_fast and at_random else Fit.POSSIBLE
    if _surely_kept(e) and (not e.counts_up or e.lives.kept_seconds >= SESSION_SECONDS):
        return Fit.UNLIKELY
    if e.lives.kept_share > 1 - KEPT_SHARE:
        return Fit.POSSIBLE
    jobs = e.is_burst and e.lives.replaced_share < REPLACED_SHARE
    at_random = (e.life_spread or 0.0) >= RANDOM_SPREAD
    clear = e.counts_up or _is_scheduled(e.lives) or jobs
    brief = e.lives.used_seconds < BRIEF_SECONDS and (e.is_fast or e.is_fleet or at_random)
    return Fit.LIKELY if clear or brief else Fit.POSSIBLE


CAUSES: tuple[tuple[Churn, Callable[[ChurnEvidence], Fit]], ...] = (
    (Churn.EXPIRED_IDLE, expired_idle),
    (Churn.FENCING_WAR, fencing_war),
    (Churn.ON_ERROR, on_error),
    (Churn.ROTATION, rotation),
    (Churn.HEALTHY, few_ids),
    (Churn.LEAK, leak),
    (Churn.SCALE_OUT, scale_out),
    (Churn.DEPLOY, deploy),
    (Churn.RESTART_LOOP, restart_loop),
    (Churn.NEW_TRANSACTIONAL_ID, new_transactional_id),
    (Churn.PER_MESSAGE, per_message),
)
"""The table of rules: the first cause that is certain, else the first likely one, is the diagnosis."""


def diagnose(evidence: ChurnEvidence) -> Diagnosis:
    """Diagnose a client.

    Examples:
        >>> known = ChurnEvidence(client="app", new_pids=3, span_seconds=900)
        >>> diagnose(known).kind.value
        'healthy'
    """
    fits = {kind: fit(evidence) for kind, fit in CAUSES}
    best = max(fits, key=lambda kind: fits[kind])
    if best is Churn.HEALTHY and evidence.new_pids < MIN_NEW_PIDS:
        # So few ids are no churn, whatever else fits. Rivals cost epochs only.
        return Diagnosis(best, _RIVALS if fits[Churn.FENCING_WAR] is Fit.POSSIBLE else ())
    is_found = fits[best] >= Fit.LIKELY
    possible = tuple(kind for kind in fits if fits[kind] >= Fit.POSSIBLE and not (is_found and kind is best))
    unlikely = tuple(kind for kind in fits if fits[kind] is Fit.UNLIKELY and kind is not Churn.HEALTHY)
    if fits[best] is Fit.CERTAIN:
        return Diagnosis(best, (), (*possible, *unlikely))
    if is_found or len(possible) == 1:
        return Diagnosis(best, () if not is_found else possible, unlikely)
    return Diagnosis(Churn.CANT_TELL, possible, unlikely)


def _brief(e: ChurnEvidence) -> bool:
    lives = e.lives
    return lives is not None and lives.used_seconds < BRIEF_SECONDS and lives.kept_share <= 1 - ENDED_SHARE


def _surely_kept(e: ChurnEvidence) -> bool:
    lives = e.lives
    return lives is not None and (lives.kept_share >= SURELY_KEPT_SHARE and lives.kept_seconds >= SURELY_KEPT_SECONDS)


def _is_supervised(lives: Lives) -> bool:
    """Return whether processes end after random times and restart after regular waits."""
    return lives.down_seconds > 0 and lives.down_spread <= REGULAR_SPREAD < lives.used_spread


def _is_scheduled(lives: Lives) -> bool:
    """Return whether a clock starts the producers, and each is used for a moment or about equally long."""
    return lives.on_schedule and (lives.used_seconds < BRIEF_SECONDS or lives.used_spread <= VARIED_SPREAD)


def _is_one_at_a_time(e: ChurnEvidence) -> bool:
    """Return whether each address has one producer at a time, again and again, for a minute or more each."""
    lives = e.lives
    again = e.new_pids >= MIN_RESTARTS * max(1, e.hosts)
    return (
        lives is not None
        and again
        and lives.used_seconds >= BRIEF_SECONDS
        and lives.overlap_share <= 1 - ENDED_SHARE
        and not (_is_scheduled(lives) or e.is_burst)
    )

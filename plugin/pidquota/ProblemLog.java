package pidquota;

import org.slf4j.Logger;

/** Logs one line when a problem begins, and one when it ends. */
final class ProblemLog {
    /** Least time between two lines about different problems. */
    private static final long PAUSE_NS = 60_000_000_000L;

    private final Logger log;
    private String logged;
    private long loggedNs;

    ProblemLog(Logger log) {
        this.log = log;
    }

    /** The problem of the newest line; null if that problem is over. */
    String logged() {
        return logged;
    }

    /** Tell the present problem; null if there is none. */
    void now(String problem) {
        if (problem == null) {
            if (logged != null) {
                log.warn("pid-quota: the problem is over: {}", logged);
                logged = null;
            }
        } else if (logged == null || !problem.equals(logged) && System.nanoTime() - loggedNs > PAUSE_NS) {
            log.error("pid-quota: {}", problem);
            logged = problem;
            loggedNs = System.nanoTime();
        }
    }
}

package pidquota;

/** Hears what {@link Source}s log, on the thread that logs it. Implementations never throw. */
interface LogListener {
    /** Whether the next message matters, even if the broker's log settings leave it out. */
    boolean wants(Source source);

    /** Whether an error of {@link Source#REQUESTS} is only that a hold works: the log would hold one per retry. */
    boolean hidesError();

    /**
     * Called with each message of a source at its level, also with messages that nobody wanted; returns whether the broker's
     * log should not have it.
     */
    boolean logged(Source source, String message);
}

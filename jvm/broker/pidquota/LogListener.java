package pidquota;

/** Receives the messages of the {@link Source}s on the thread that logs them. Implementations never throw. */
interface LogListener {
    /** Whether to build the next message even if the broker's log settings leave it out. */
    boolean wants(Source source);

    /** Whether a hold causes the error that {@link Source#REQUESTS} logs. The log would get one for each retry. */
    boolean hidesError();

    /**
     * Called with each message of a source at its level, even if {@link #wants} was false. Returns whether to keep the
     * message out of the broker's log.
     */
    boolean logged(Source source, String message);
}

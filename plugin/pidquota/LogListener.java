package pidquota;

/** Receives the messages of each {@link Source} on the thread that logs them. Implementations never throw. */
interface LogListener {
    /** Whether Kafka must build the source's next message even if the broker's log settings exclude the message. */
    boolean wants(Source source);

    /**
     * Receive a message of a source at the source's level, even if {@link #wants} was false. Return whether to hide the
     * message from the broker's log.
     */
    boolean logged(Source source, String message);
}

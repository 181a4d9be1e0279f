package pidquota;

import org.apache.kafka.common.errors.CoordinatorLoadInProgressException;

/**
 * The answer to a request that has to wait because of a hold. Clients retry after this error. It has no stack trace,
 * because each retry throws it. The log hooks know it by its class: Kafka logs it as an unexpected error.
 */
final class Held extends CoordinatorLoadInProgressException {
    private static final long serialVersionUID = 1L;

    Held() {
        super("pid-quota holds back new producer ids of this principal");
    }

    @Override
    public Throwable fillInStackTrace() {
        return this;
    }
}

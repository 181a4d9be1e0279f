package pidquota;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.RequestContext;

/**
 * The request that the current thread works for, as {@code KafkaRequestHandler} knows it. Kafka sets it for each request, and
 * to the original request for a callback (after a transaction's verification, say), so it is the request of whatever this
 * thread appends. Fetchers of followers, log recovery and background threads have none.
 */
final class CurrentRequest {
    private static final String HANDLER = "kafka.server.KafkaRequestHandler$";
    private static final String ACCESSOR = "kafka$server$KafkaRequestHandler$$threadCurrentRequest";
    private static final String REQUEST = "kafka.network.RequestChannel$Request";

    // Constants, so that the compiler can inline the handles.
    private static final ThreadLocal<?> CURRENT;
    private static final MethodHandle CONTEXT;
    private static final MethodHandle BODY;
    private static final MethodHandle ANSWERED_NANOS;

    // Looks up what differs between versions of Kafka; where this version lacks it, the class does not load.
    static {
        try {
            ClassLoader loader = CurrentRequest.class.getClassLoader();
            Class<?> handler = Class.forName(HANDLER, true, loader);
            Object module = handler.getField("MODULE$").get(null);
            CURRENT = (ThreadLocal<?>) handler.getMethod(ACCESSOR).invoke(module);
            Class<?> request = Class.forName(REQUEST, false, loader);
            CONTEXT = virtual(request, "context", RequestContext.class);
            BODY = virtual(request, "loggableRequest", AbstractRequest.class);
            ANSWERED_NANOS = virtual(request, "responseCompleteTimeNanos", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private static MethodHandle virtual(Class<?> type, String name, Class<?> result) throws ReflectiveOperationException {
        return MethodHandles.publicLookup().findVirtual(type, name, MethodType.methodType(result))
            .asType(MethodType.methodType(result, Object.class));
    }

    /** Context of the current request if it is of that kind, else null. */
    RequestContext context(ApiKeys kind) throws Throwable {
        Object request = CURRENT.get();
        if (request == null) {
            return null;
        }
        RequestContext found = (RequestContext) CONTEXT.invokeExact(request);
        // `apiKey()` looks the number up in a map.
        return found.header.data().requestApiKey() == kind.id ? found : null;
    }

    /** Body of the current request. */
    AbstractRequest body() throws Throwable {
        return (AbstractRequest) BODY.invokeExact((Object) CURRENT.get());
    }

    /** The current request itself, for {@link #isAnswered}. It holds the whole body: keep it by a weak reference. */
    Object request() {
        return CURRENT.get();
    }

    /** Whether a request was answered, or is gone. */
    boolean isAnswered(Object request) {
        try {
            return request == null || (long) ANSWERED_NANOS.invokeExact(request) != -1;
        } catch (Throwable e) {
            return false;
        }
    }
}

package pidquota;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.RequestContext;

/**
 * The request that the current thread works for, from {@code KafkaRequestHandler}. For a callback, such as after a
 * transaction's verification, Kafka sets the original request. So whatever the thread appends belongs to the current
 * request. Fetchers of followers, log recovery and background threads have no request.
 */
final class CurrentRequest {
    private static final String HANDLER = "kafka.server.KafkaRequestHandler$";
    private static final String ACCESSOR = "kafka$server$KafkaRequestHandler$$threadCurrentRequest";
    private static final String REQUEST = "kafka.network.RequestChannel$Request";

    // The JIT compiler inlines constant handles.
    private static final ThreadLocal<?> CURRENT;
    private static final MethodHandle CONTEXT;
    private static final MethodHandle BODY;
    private static final MethodHandle ANSWERED_NANOS;

    // These classes and methods differ between versions of Kafka. If a version lacks one, this class does not load.
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

    /** Context of the current request if the request has this kind, else null. */
    RequestContext context(ApiKeys kind) throws Throwable {
        Object request = CURRENT.get();
        if (request == null) {
            return null;
        }
        RequestContext found = (RequestContext) CONTEXT.invokeExact(request);
        // `apiKey()` is slower, because it looks the number up in a map.
        return found.header.data().requestApiKey() == kind.id ? found : null;
    }

    /** Body of the current request. */
    AbstractRequest body() throws Throwable {
        return (AbstractRequest) BODY.invokeExact((Object) CURRENT.get());
    }

    /** The current request with its whole body. Keep only a weak reference. */
    Object request() {
        return CURRENT.get();
    }

    /** Whether a request was answered or, if {@code request} is null, garbage collected. */
    boolean isAnswered(Object request) {
        try {
            return request == null || (long) ANSWERED_NANOS.invokeExact(request) != -1;
        } catch (Throwable e) {
            return false;
        }
    }
}

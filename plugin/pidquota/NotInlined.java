package pidquota;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/**
 * Passes messages on by method handles that the JIT compiler can't take for constants, so that it does not inline what is
 * behind them. Without this class it copies the look-up of producer ids into each log statement of Kafka's hot methods,
 * which then are too large to be compiled well.
 */
final class NotInlined implements LogListener {
    private final MethodHandle wants;
    private final MethodHandle logged;

    NotInlined(LogListener listener) {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            wants = lookup.findVirtual(LogListener.class, "wants", MethodType.methodType(boolean.class, Source.class))
                .bindTo(listener);
            logged = lookup.findVirtual(LogListener.class, "logged",
                MethodType.methodType(boolean.class, Source.class, String.class)).bindTo(listener);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public boolean wants(Source source) {
        try {
            return (boolean) wants.invokeExact(source);
        } catch (Throwable e) {
            return false;
        }
    }

    @Override
    public boolean logged(Source source, String message) {
        try {
            return (boolean) logged.invokeExact(source, message);
        } catch (Throwable e) {
            return false;
        }
    }
}

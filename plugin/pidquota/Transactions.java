package pidquota;

import java.lang.reflect.Field;

import kafka.coordinator.transaction.TransactionMarkerChannelManager;
import kafka.coordinator.transaction.TransactionStateManager;

import scala.Option;
import scala.util.Either;
import scala.util.Right;

/**
 * Asks this broker's transaction coordinator which transactional ids it knows. The coordinator reads its state from a
 * topic, so it also knows them after a restart, and after the coordinator has moved to this broker.
 */
final class Transactions {
    private volatile TransactionStateManager states;

    /** Find the coordinator's state, once it has started. Return a problem, or null. */
    String find() {
        if (states != null) {
            return null;
        }
        try {
            // The coordinator's thread is the only public way to its state.
            for (Thread each : threads()) {
                if (each instanceof TransactionMarkerChannelManager) {
                    Field field = TransactionMarkerChannelManager.class.getDeclaredField("txnStateManager");
                    field.setAccessible(true);
                    states = (TransactionStateManager) field.get(each);
                    return null;
                }
            }
            return unseen("its thread is missing");
        } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
            return unseen(e.toString());
        }
    }

    private static Thread[] threads() {
        ThreadGroup all = Thread.currentThread().getThreadGroup();
        while (all.getParent() != null) {
            all = all.getParent();
        }
        Thread[] found = new Thread[2 * all.activeCount()];
        all.enumerate(found);
        return found;
    }

    private static String unseen(String reason) {
        return "can't see the transaction coordinator (" + reason + "), so no transactional id is held";
    }

    /** Whether a request for the id makes a new producer id here. False if the coordinator is elsewhere, or loading. */
    boolean isNew(String transactionalId) {
        TransactionStateManager asked = states;
        if (asked == null || transactionalId.isEmpty()) {
            return false;
        }
        try {
            Either<?, ?> answer = asked.getTransactionState(transactionalId);
            return answer instanceof Right && ((Option<?>) ((Right<?, ?>) answer).value()).isEmpty();
        } catch (RuntimeException | LinkageError e) {
            states = null;
            return false;
        }
    }
}

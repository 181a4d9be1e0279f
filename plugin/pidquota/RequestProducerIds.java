package pidquota;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.function.LongPredicate;

import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceRequestData.PartitionProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceData;

/** Reads producer ids from a produce request. Method handles are necessary because Kafka 4.3 moved the record types. */
final class RequestProducerIds {
    // The JIT compiler inlines constant handles.
    private static final MethodHandle RECORDS;
    private static final MethodHandle BATCHES;
    private static final MethodHandle PRODUCER_ID;

    // If this version of Kafka lacks one of the methods, this class does not load.
    static {
        try {
            ClassLoader loader = RequestProducerIds.class.getClassLoader();
            Class<?> anyRecords = PartitionProduceData.class.getMethod("records").getReturnType();
            Class<?> records = Class.forName(anyRecords.getPackageName() + ".Records", false, loader);
            Class<?> batch = Class.forName(anyRecords.getPackageName() + ".RecordBatch", false, loader);
            MethodHandles.Lookup lookup = MethodHandles.publicLookup();
            RECORDS = lookup.findVirtual(PartitionProduceData.class, "records", MethodType.methodType(anyRecords))
                .asType(MethodType.methodType(Object.class, PartitionProduceData.class));
            BATCHES = lookup.findVirtual(records, "batches", MethodType.methodType(Iterable.class))
                .asType(MethodType.methodType(Iterable.class, Object.class));
            PRODUCER_ID = lookup.findVirtual(batch, "producerId", MethodType.methodType(long.class))
                .asType(MethodType.methodType(long.class, Object.class));
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** Whether there are producer ids and all of them pass. Throws Kafka's exceptions for invalid batches. */
    boolean allPass(ProduceRequestData data, LongPredicate passes) throws Throwable {
        long last = -1;
        for (TopicProduceData topic : data.topicData()) {
            for (PartitionProduceData partition : topic.partitionData()) {
                Object records = (Object) RECORDS.invokeExact(partition);
                if (records == null) {
                    continue;
                }
                for (Object batch : (Iterable<?>) BATCHES.invokeExact(records)) {
                    long producerId = (long) PRODUCER_ID.invokeExact(batch);
                    if (producerId != last && producerId >= 0) {
                        if (!passes.test(producerId)) {
                            return false;
                        }
                        last = producerId;
                    }
                }
            }
        }
        return last >= 0;
    }
}

import java.util.Properties;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** SERVERS USER PASSWORD TOPIC CLIENT_ID THREADS: each thread makes a producer per message; prints their counts of deliveries. */
public class JavaCrowd {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "PLAIN");
        settings.put("buffer.memory", 65536);
        settings.put("client.id", arguments[4]);
        // The default of newer versions.
        settings.put("enable.idempotence", true);
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required "
            + "username=\"" + arguments[1] + "\" password=\"" + arguments[2] + "\";");
        int threads = Integer.parseInt(arguments[5]);
        AtomicIntegerArray delivered = new AtomicIntegerArray(threads);
        for (int number = 0; number < threads; number++) {
            int own = number;
            new Thread(() -> {
                while (true) {
                    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                        producer.send(new ProducerRecord<>(arguments[3], "one order")).get();
                        delivered.incrementAndGet(own);
                    } catch (Exception error) {
                        System.out.println("failed " + error);
                    }
                }
            }).start();
        }
        while (true) {
            Thread.sleep(50);
            System.out.println(delivered);
        }
    }
}

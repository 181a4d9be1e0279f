import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own client: SERVERS USER PASSWORD TOPIC. Makes a producer after another, each third transactional, until killed. */
public class JavaChurn {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "PLAIN");
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required "
            + "username=\"" + arguments[1] + "\" password=\"" + arguments[2] + "\";");
        for (int number = 0; ; number++) {
            boolean isTransactional = number % 3 == 0;
            if (isTransactional) {
                settings.put("transactional.id", arguments[1] + "-" + number % 12);
            } else {
                settings.remove("transactional.id");
            }
            try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                if (isTransactional) {
                    producer.initTransactions();
                    producer.beginTransaction();
                }
                for (int message = 0; message < 12; message++) {
                    producer.send(new ProducerRecord<>(arguments[3], message, null, arguments[1]));
                }
                producer.flush();
                if (isTransactional) {
                    producer.commitTransaction();
                }
            } catch (RuntimeException e) {
                System.out.println(e);
            }
            Thread.sleep(200);
        }
    }
}

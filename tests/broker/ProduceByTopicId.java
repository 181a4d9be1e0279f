import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends with Kafka's own client, whose PRODUCE requests (version 13) name topics by id. Used by record_lines.py. */
public class ProduceByTopicId {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", "java-app");
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "PLAIN");
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required "
            + "username=\"" + arguments[1] + "\" password=\"" + arguments[2] + "\";");
        send(settings, false);
        settings.put("transactional.id", "java-tx");
        send(settings, true);
    }

    private static void send(Properties settings, boolean inTransaction) throws Exception {
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            if (inTransaction) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            producer.send(new ProducerRecord<>("orders", 0, null, "value")).get();
            producer.send(new ProducerRecord<>("payments", 0, null, "value")).get();
            if (inTransaction) {
                producer.commitTransaction();
            }
        }
    }
}

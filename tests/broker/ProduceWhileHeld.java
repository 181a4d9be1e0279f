import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own client: SERVERS USER PASSWORD TOPIC COUNT. After a line on stdin, COUNT producers send a message each. */
public class ProduceWhileHeld {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "PLAIN");
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required "
            + "username=\"" + arguments[1] + "\" password=\"" + arguments[2] + "\";");
        System.out.println("ready");
        System.in.read();
        for (int number = 0; number < Integer.parseInt(arguments[4]); number++) {
            var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            producer.send(new ProducerRecord<>(arguments[3], "waited"), (sent, error) ->
                System.out.println(error == null ? "new " + System.currentTimeMillis() : "failed " + error));
        }
        System.in.read();
    }
}

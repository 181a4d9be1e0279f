import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.utils.Utils;

/** Reads client files as Kafka's tools do. In: file names. Out: base64 of mechanism and login options, or "refused". */
public class ReadClientFile {
    public static void main(String[] none) {
        Scanner files = new Scanner(System.in);
        while (files.hasNextLine()) {
            StringBuilder found = new StringBuilder();
            try {
                Properties properties = Utils.loadProps(files.nextLine());
                properties.put("bootstrap.servers", "none:1");
                AdminClientConfig config = new AdminClientConfig(properties);
                add(found, "sasl.mechanism", config.getString("sasl.mechanism"));
                add(found, "security.protocol", config.getString("security.protocol"));
                Password jaas = config.getPassword("sasl.jaas.config");
                if (jaas != null) {
                    var entry = JaasContext.loadClientContext(config.values()).configurationEntries().get(0);
                    add(found, "module", entry.getLoginModuleName());
                    for (var option : entry.getOptions().entrySet()) {
                        add(found, "option " + option.getKey(), String.valueOf(option.getValue()));
                    }
                }
            } catch (Exception refused) {
                found = new StringBuilder("refused\0" + refused);
            }
            byte[] line = found.toString().getBytes(StandardCharsets.UTF_8);
            System.out.println(Base64.getEncoder().encodeToString(line));
        }
    }

    private static void add(StringBuilder to, String name, String value) {
        to.append(name).append('\0').append(value).append('\0');
    }
}

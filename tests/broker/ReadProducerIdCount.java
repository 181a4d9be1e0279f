import com.sun.tools.attach.VirtualMachine;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints what brokers themselves count of producers (KIP-847), by process id. Used by occupancy_kit.py. */
public class ReadProducerIdCount {
    public static void main(String[] processes) throws Exception {
        ObjectName metric = new ObjectName("kafka.server:type=ReplicaManager,name=ProducerIdCount");
        for (String process : processes) {
            VirtualMachine broker = VirtualMachine.attach(process);
            String address = broker.startLocalManagementAgent();
            broker.detach();
            try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
                System.out.println(process + " " + connector.getMBeanServerConnection().getAttribute(metric, "Value"));
            }
        }
    }
}

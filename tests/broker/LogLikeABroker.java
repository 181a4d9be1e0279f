import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/** Logs errors as a broker does: of a request that is held back, and others. */
public class LogLikeABroker {
    public static void main(String[] arguments) {
        String init = "[KafkaApi-1] Unexpected error handling request RequestHeader(apiKey=INIT_PRODUCER_ID, clientId=a\nb) -- ";
        var apis = LoggerFactory.getLogger("kafka.server.KafkaApis");
        MDC.put("pid-quota", "held");
        apis.error(init + "held back");
        apis.error("[KafkaApi-1] Unexpected error handling request RequestHeader(apiKey=PRODUCE, clientId=" + init + ") -- another");
        MDC.remove("pid-quota");
        apis.error(init + "not held back");
        apis.info("[KafkaApi-1] as ever");
        org.apache.logging.log4j.LogManager.shutdown();
    }
}

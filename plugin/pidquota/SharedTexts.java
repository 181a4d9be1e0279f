package pidquota;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.kafka.common.security.auth.KafkaPrincipal;

/** Keeps one copy of each text that many producers share, such as client ids and addresses, up to a number of texts. */
final class SharedTexts {
    private static final int MOST = 10_000;

    private final Map<String, String> texts = new ConcurrentHashMap<>();
    private final Map<KafkaPrincipal, String> principals = new ConcurrentHashMap<>();

    String share(String text) {
        if (text == null) {
            return null;
        }
        String shared = texts.get(text);
        if (shared != null) {
            return shared;
        }
        if (texts.size() >= MOST) {
            texts.clear();
        }
        texts.put(text, text);
        return text;
    }

    /** The principal as text, such as {@code User:alice}. */
    String of(KafkaPrincipal principal) {
        String text = principals.get(principal);
        if (text == null) {
            if (principals.size() >= MOST) {
                principals.clear();
            }
            text = share(Text.of(principal));
            principals.put(principal, text);
        }
        return text;
    }
}

package pidquota;

import java.io.IOException;
import java.nio.charset.StandardCharsets;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** A record of the topic {@code pid-quota-holds} ({@code wire/holds.py} documents it). */
final class HoldRecord {
    static final String EVERYBODY = "*";
    private static final String RELEASE = "release:";
    private static final String USER = "User:";
    private static final long MAX_HOLD_MS = 600_000;
    private static final long MAX_RELEASE_MS = 7 * 86_400_000L;
    private static final int MAX_KEY_BYTES = 16_384;
    private static final int MAX_VALUE_BYTES = 65_536;
    private static final ObjectMapper JSON = new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    final boolean isRelease;
    final String principal;
    /** How long the hold or the release lasts from the record on; 0 if the record ends it. */
    final long durationMs;
    /** Time per request for a new producer id that passes; 0 for none. */
    final long initEveryMs;
    final String decisionId;
    final String writer;

    /** Throws IllegalArgumentException, with the reason, if brokers have to ignore the record. */
    HoldRecord(byte[] key, byte[] value, String clusterId) {
        if (key == null || key.length > MAX_KEY_BYTES || value != null && value.length > MAX_VALUE_BYTES) {
            throw new IllegalArgumentException("key or value is missing or too long");
        }
        String text = keyText(key);
        isRelease = text.startsWith(RELEASE);
        principal = isRelease ? text.substring(RELEASE.length()) : text;
        require(isUser(principal) || isRelease && principal.equals(EVERYBODY), "key is no user's principal");
        JsonNode fields = value == null ? null : fields(value, clusterId);
        if (fields == null) {
            durationMs = initEveryMs = 0;
            decisionId = writer = "";
        } else if (isRelease) {
            durationMs = number(fields, "release_ms", 1, MAX_RELEASE_MS);
            initEveryMs = 0;
            decisionId = "";
            writer = string(fields, "by", "");
        } else {
            durationMs = number(fields, "hold_ms", 1, MAX_HOLD_MS);
            number(fields, "until_ms", 0, Long.MAX_VALUE);
            initEveryMs = fields.path("init_every_ms").isMissingNode() || fields.path("init_every_ms").isNull() ? 0
                : number(fields, "init_every_ms", 1, 1L << 53);
            decisionId = string(fields, "decision_id", "");
            writer = string(fields, "writer", null);
        }
    }

    /** The text of a key, for messages, too. */
    static String keyText(byte[] key) {
        return key == null ? "null" : new String(key, 0, Math.min(key.length, MAX_KEY_BYTES), StandardCharsets.UTF_8);
    }

    private static boolean isUser(String principal) {
        return principal.startsWith(USER) && principal.length() > USER.length() && !principal.equals("User:*")
            && !principal.equals("User:ANONYMOUS");
    }

    private static JsonNode fields(byte[] value, String clusterId) {
        JsonNode fields;
        try {
            fields = JSON.readTree(value);
        } catch (IOException e) {
            throw new IllegalArgumentException("value is not JSON", e);
        }
        require(fields.isObject(), "value is not an object");
        long version = number(fields, "version", Long.MIN_VALUE, Long.MAX_VALUE);
        require(version == 1, "version " + version + " is not 1");
        String cluster = string(fields, "cluster_id", null);
        require(cluster.equals(clusterId), "cluster_id " + cluster + " is not " + clusterId);
        return fields;
    }

    private static long number(JsonNode fields, String name, long least, long most) {
        JsonNode value = fields.path(name);
        require(value.isIntegralNumber() && value.canConvertToLong(), name + " is not a whole number");
        require(value.longValue() >= least && value.longValue() <= most, name + " " + value + " is not from " + least
            + " to " + most);
        return value.longValue();
    }

    private static String string(JsonNode fields, String name, String otherwise) {
        JsonNode value = fields.path(name);
        require(value.isTextual() || value.isMissingNode() && otherwise != null, name + " is not a string");
        return value.isMissingNode() ? otherwise : Text.cut(value.textValue(), Text.MAX_ID);
    }

    private static void require(boolean isGood, String problem) {
        if (!isGood) {
            throw new IllegalArgumentException(problem);
        }
    }
}

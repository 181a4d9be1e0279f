package pidquota;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

import org.apache.kafka.common.security.auth.KafkaPrincipal;

/** Bounds the length of texts that clients send. */
final class Text {
    static final int MAX_ID = 256;
    static final int MAX_PRINCIPAL = 4096;
    private static final int DIGEST_BYTES = 16;

    private Text() {
    }

    static String of(KafkaPrincipal principal) {
        return cut(principal.getPrincipalType() + ":" + principal.getName(), MAX_PRINCIPAL);
    }

    /** Shorten a long text to its beginning and a digest of the whole text. Kafka accepts ids of 32 KB. */
    static String cut(String text, int longest) {
        if (text == null || text.length() <= longest) {
            return text;
        }
        int end = Character.isHighSurrogate(text.charAt(longest - 1)) ? longest - 1 : longest;
        StringBuilder cut = new StringBuilder(text.substring(0, end)).append('~');
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            cut.append(String.format("%032x", new BigInteger(1, digest, 0, DIGEST_BYTES)));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
        return cut.toString();
    }
}

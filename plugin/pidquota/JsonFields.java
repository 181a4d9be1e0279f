package pidquota;

import java.util.function.IntToLongFunction;

/** Fields of a JSON object, in order. */
final class JsonFields {
    private static final String HEX = "0123456789abcdef";
    private final StringBuilder out = new StringBuilder(256);

    JsonFields add(String name, long value) {
        name(name).append(value);
        return this;
    }

    JsonFields add(String name, boolean value) {
        name(name).append(value);
        return this;
    }

    /** Add a string; null adds nothing. */
    JsonFields add(String name, String value) {
        if (value != null) {
            quote(value, name(name));
        }
        return this;
    }

    /** Add a number; null adds nothing. */
    JsonFields add(String name, Long value) {
        return value == null ? this : add(name, value.longValue());
    }

    /** Add an array of numbers. */
    JsonFields add(String name, int size, IntToLongFunction values) {
        name(name).append('[');
        for (int i = 0; i < size; i++) {
            (i == 0 ? out : out.append(',')).append(values.applyAsLong(i));
        }
        out.append(']');
        return this;
    }

    /** Add an array of objects. */
    JsonFields add(String name, Iterable<JsonFields> values) {
        char before = '[';
        name(name);
        for (JsonFields each : values) {
            out.append(before).append('{').append(each.out).append('}');
            before = ',';
        }
        out.append(before == '[' ? "[]" : "]");
        return this;
    }

    /** Add an array of strings. */
    JsonFields addTexts(String name, Iterable<String> values) {
        char before = '[';
        name(name);
        for (String each : values) {
            quote(each, out.append(before));
            before = ',';
        }
        out.append(before == '[' ? "[]" : "]");
        return this;
    }

    JsonFields addAll(JsonFields more) {
        if (more.length() > 0) {
            (out.length() == 0 ? out : out.append(',')).append(more.out);
        }
        return this;
    }

    private StringBuilder name(String name) {
        return out.append(out.length() == 0 ? "\"" : ",\"").append(name).append("\":");
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            if (each == '"' || each == '\\') {
                out.append('\\').append(each);
            } else if (each < ' ') {
                out.append("\\u00").append(HEX.charAt(each >> 4)).append(HEX.charAt(each & 15));
            } else if (Character.isSurrogate(each) && !isPair(text, i)) {
                out.append('\ufffd');
            } else {
                out.append(each);
            }
        }
        out.append('"');
    }

    /** Whether the surrogate belongs to a pair. UTF-8 has no form for a single surrogate. */
    private static boolean isPair(String text, int i) {
        return Character.isHighSurrogate(text.charAt(i))
            ? i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))
            : i > 0 && Character.isHighSurrogate(text.charAt(i - 1));
    }

    int length() {
        return out.length();
    }

    /** The object as JSON. */
    @Override
    public String toString() {
        return "{" + out + "}";
    }
}

package pidquota;

import java.util.Collection;
import java.util.function.IntToLongFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

import com.fasterxml.jackson.core.io.JsonStringEncoder;

/** Fields of a JSON object, in order. */
final class JsonFields {
    private final StringBuilder out = new StringBuilder(256);

    JsonFields add(String name, long value) {
        return addJson(name, Long.toString(value));
    }

    JsonFields add(String name, boolean value) {
        return addJson(name, Boolean.toString(value));
    }

    /** Add a string; null adds nothing. */
    JsonFields add(String name, String value) {
        return value == null ? this : addJson(name, quoted(value));
    }

    /** Add a number; null adds nothing. */
    JsonFields add(String name, Long value) {
        return value == null ? this : addJson(name, value.toString());
    }

    /** Add an array of numbers. */
    JsonFields add(String name, int size, IntToLongFunction values) {
        return addArray(name, IntStream.range(0, size).mapToLong(values).mapToObj(Long::toString));
    }

    /** Add an array of objects, which are JSON. */
    JsonFields addObjects(String name, Collection<String> values) {
        return addArray(name, values.stream());
    }

    /** Add an array of strings. */
    JsonFields addTexts(String name, Collection<String> values) {
        return addArray(name, values.stream().map(JsonFields::quoted));
    }

    private JsonFields addArray(String name, Stream<String> values) {
        return addJson(name, values.collect(Collectors.joining(",", "[", "]")));
    }

    private JsonFields addJson(String name, String value) {
        out.append(out.length() == 0 ? "\"" : ",\"").append(name).append("\":").append(value);
        return this;
    }

    /** Add all fields of another object, which has some. */
    JsonFields addAll(JsonFields more) {
        out.append(',').append(more.out);
        return this;
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder(text.length() + 2).append('"');
        JsonStringEncoder.getInstance().quoteAsString(text, quoted);
        return quoted.append('"').toString();
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

package pidquota;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.zip.CRC32C;

import org.apache.kafka.common.utils.ByteUtils;

/**
 * Reads the blocks of producer ids (KIP-730) from this node's copy of the metadata log, {@code __cluster_metadata-0}. Each
 * block has a {@code ProducerIdsRecord} with the start of the <em>next</em> block.
 *
 * <p>The class reads batches in Kafka's format 2 itself. Kafka's {@code BatchFileReader} fails at the control records of
 * clusters with KIP-853, and the package of {@code FileRecords} differs between versions of Kafka.
 */
final class MetadataLog {
    static final int BLOCK_LENGTH = 1000;

    private static final int HEADER_BYTES = 61;
    private static final int LENGTH_AT = 8;
    private static final int LENGTH_END = 12;
    private static final int MAGIC_AT = 16;
    private static final int CRC_AT = 17;
    private static final int ATTRIBUTES_AT = 21;
    private static final int BASE_TIME_AT = 27;
    private static final int COUNT_AT = 57;
    private static final int COMPRESSED = 7;
    private static final int CONTROL = 1 << 5;
    private static final int MOST_BATCH_BYTES = 256 << 20;
    private static final int CHUNK_BYTES = 1 << 20;

    private static final int FRAME_VERSION = 1;
    private static final int PRODUCER_IDS_RECORD = 15;

    private final Path folder;
    private final int brokerId;
    /** Base offset of the segment that is read now, or -1 before the first. */
    private long segment = -1;
    private long position;
    private boolean isKnown;
    private long next;
    private List<Block> blocks = new ArrayList<>();

    MetadataLog(Path folder, int brokerId) {
        this.folder = folder;
        this.brokerId = brokerId;
    }

    /** A block of {@link #BLOCK_LENGTH} ids that the controller gave to this broker. */
    static final class Block {
        final long first;
        final long brokerEpoch;
        final long timestampMs;

        Block(long first, long brokerEpoch, long timestampMs) {
            this.first = first;
            this.brokerEpoch = brokerEpoch;
            this.timestampMs = timestampMs;
        }

        long next() {
            return first + BLOCK_LENGTH;
        }
    }

    /** The first producer id that no block contains; null if the log could not be read from its beginning. */
    Long nextProducerId() {
        return isKnown ? next : null;
    }

    /** Read to the end of the log. Return this broker's blocks that were not returned before. */
    List<Block> read() throws IOException {
        blocks = new ArrayList<>();
        try {
            NavigableMap<Long, Path> segments = files(".log");
            if (!segments.containsKey(segment)) {
                begin(segments);
            }
            for (Path each : segments.tailMap(segment, true).values()) {
                long base = baseOf(each);
                if (base != segment) {
                    segment = base;
                    position = 0;
                }
                readSegment(each);
            }
        } catch (NoSuchFileException e) {
            // Kafka has deleted a segment. The next call starts at the oldest one.
            segment = -1;
        } catch (IOException | RuntimeException e) {
            // A bound from a part of the log would charge old producer ids.
            isKnown = false;
            segment = -1;
            throw e;
        }
        return blocks;
    }

    /** Start with the oldest segment, and with the newest snapshot if there are no records from offset 0 on. */
    private void begin(NavigableMap<Long, Path> segments) throws IOException {
        isKnown = false;
        if (segments.isEmpty()) {
            return;
        }
        segment = segments.firstKey();
        position = 0;
        NavigableMap<Long, Path> snapshots = files(".checkpoint");
        if (segment == 0) {
            isKnown = true;
        } else if (!snapshots.isEmpty()) {
            readFile(snapshots.lastEntry().getValue(), 0);
            isKnown = snapshots.lastKey() >= segment;
        }
    }

    private NavigableMap<Long, Path> files(String suffix) throws IOException {
        NavigableMap<Long, Path> found = new TreeMap<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(folder, "[0-9]*" + suffix)) {
            all.forEach(each -> found.put(baseOf(each), each));
        }
        return found;
    }

    /** The offset in a name such as {@code 00000000000000000042.log} or {@code 00000000000000000042-0000000001.checkpoint}. */
    private static long baseOf(Path file) {
        return Long.parseLong(file.getFileName().toString().split("[-.]")[0]);
    }

    private void readSegment(Path file) throws IOException {
        try {
            if (Files.size(file) < position) {
                // Kafka has truncated the segment.
                position = 0;
            }
            position = readFile(file, position);
        } catch (DamagedException e) {
            // Kafka may have truncated the segment and appended to it, so that the position is inside a batch.
            if (position == 0) {
                throw e;
            }
            position = 0;
            position = readFile(file, 0);
        }
    }

    /** Read whole batches from a position on. Return the position after the last one. */
    private long readFile(Path file, long from) throws IOException {
        long at = from;
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            ByteBuffer chunk = ByteBuffer.allocate(CHUNK_BYTES);
            while (true) {
                fill(channel, chunk.clear(), at);
                int size = batchBytes(chunk, 0);
                if (size > chunk.capacity()) {
                    chunk = ByteBuffer.allocate(size);
                    fill(channel, chunk, at);
                }
                int done = 0;
                while ((size = batchBytes(chunk, done)) > 0 && done + size <= chunk.limit()) {
                    readBatch(chunk, done, size);
                    done += size;
                }
                if (done == 0) {
                    return at;
                }
                at += done;
            }
        }
    }

    private static void fill(FileChannel channel, ByteBuffer chunk, long at) throws IOException {
        while (chunk.hasRemaining() && channel.read(chunk, at + chunk.position()) > 0) {
            continue;
        }
        chunk.flip();
    }

    /** Size of the batch at an index; 0 if the batch's beginning is not written yet. */
    private static int batchBytes(ByteBuffer chunk, int at) throws IOException {
        if (chunk.limit() < at + LENGTH_END) {
            return 0;
        }
        int length = chunk.getInt(at + LENGTH_AT);
        if (length == 0) {
            return 0;
        }
        if (length < HEADER_BYTES - LENGTH_END || length > MOST_BATCH_BYTES) {
            throw new DamagedException("no batch of " + length + " bytes");
        }
        return length + LENGTH_END;
    }

    private void readBatch(ByteBuffer chunk, int at, int size) throws IOException {
        CRC32C crc = new CRC32C();
        crc.update(chunk.duplicate().position(at + ATTRIBUTES_AT).limit(at + size));
        if (chunk.get(at + MAGIC_AT) != 2 || (int) crc.getValue() != chunk.getInt(at + CRC_AT)) {
            throw new DamagedException("a batch is damaged");
        }
        short attributes = chunk.getShort(at + ATTRIBUTES_AT);
        if ((attributes & CONTROL) != 0) {
            return;
        }
        if ((attributes & COMPRESSED) != 0) {
            throw new IOException("a batch is compressed");
        }
        long baseMs = chunk.getLong(at + BASE_TIME_AT);
        ByteBuffer records = chunk.duplicate().position(at + HEADER_BYTES).limit(at + size);
        for (int i = chunk.getInt(at + COUNT_AT); i > 0; i--) {
            int length = ByteUtils.readVarint(records);
            int end = records.position() + length;
            records.get();
            long timestampMs = baseMs + ByteUtils.readVarlong(records);
            ByteUtils.readVarint(records);
            int keyLength = Math.max(0, ByteUtils.readVarint(records));
            records.position(records.position() + keyLength);
            if (ByteUtils.readVarint(records) >= 0) {
                readValue(records, timestampMs);
            }
            records.position(end);
        }
    }

    private void readValue(ByteBuffer value, long timestampMs) {
        boolean isBlock = ByteUtils.readUnsignedVarint(value) == FRAME_VERSION
            && ByteUtils.readUnsignedVarint(value) == PRODUCER_IDS_RECORD;
        if (!isBlock) {
            return;
        }
        // The record's version.
        ByteUtils.readUnsignedVarint(value);
        int owner = value.getInt();
        long brokerEpoch = value.getLong();
        long end = value.getLong();
        next = Math.max(next, end);
        if (owner == brokerId) {
            blocks.add(new Block(end - BLOCK_LENGTH, brokerEpoch, timestampMs));
        }
    }

    private static final class DamagedException extends IOException {
        private static final long serialVersionUID = 1L;

        DamagedException(String message) {
            super(message);
        }
    }
}

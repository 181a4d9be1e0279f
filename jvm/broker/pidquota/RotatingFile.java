package pidquota;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;

/**
 * A file of lines, {@code name}, and its predecessors {@code name.1} to {@code name.<count>}. A failed write leaves no
 * partial line. A killed broker's partial line gets a line end. If another program truncates the file, lines are
 * appended at the new end. A lock file ensures that only one process writes.
 */
final class RotatingFile implements AutoCloseable {
    private final Path path;
    private final long bytes;
    private final int count;
    private FileChannel lockChannel;
    private FileLock lock;
    private FileChannel channel;
    private Object key;

    RotatingFile(Path path, long bytes, int count) {
        this.path = path;
        this.bytes = bytes;
        this.count = count;
    }

    /** Append all lines or none. */
    void append(ByteBuffer lines) throws IOException {
        takeLock();
        if (channel == null || !isThere()) {
            open();
        } else if (channel.size() > 0 && channel.size() + lines.remaining() > bytes) {
            rotate();
            open();
        }
        long before = channel.size();
        try {
            while (lines.hasRemaining()) {
                channel.write(lines);
            }
        } catch (IOException e) {
            undo(before);
            throw e;
        }
    }

    private void takeLock() throws IOException {
        if (lock != null) {
            return;
        }
        Files.createDirectories(path.getParent());
        Path beside = path.resolveSibling(path.getFileName() + ".lock");
        if (lockChannel == null) {
            lockChannel = FileChannel.open(beside, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        }
        try {
            lock = lockChannel.tryLock();
        } catch (OverlappingFileLockException e) {
            lock = null;
        }
        if (lock == null) {
            throw new IOException("another broker writes it: set " + Settings.PREFIX + "file to a file of its own");
        }
    }

    /** Whether {@code path} is still the open file. Another program may have deleted or renamed the file. */
    private boolean isThere() throws IOException {
        try {
            return key.equals(Files.readAttributes(path, BasicFileAttributes.class).fileKey());
        } catch (NoSuchFileException e) {
            return false;
        }
    }

    private void open() throws IOException {
        closeChannel();
        Files.createDirectories(path.getParent());
        channel = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        key = Files.readAttributes(path, BasicFileAttributes.class).fileKey();
        if (isTorn()) {
            channel.write(ByteBuffer.wrap(new byte[] {'\n'}));
        }
    }

    /** Whether the last line lacks its line end. */
    private boolean isTorn() throws IOException {
        ByteBuffer last = ByteBuffer.allocate(1);
        try (FileChannel reading = FileChannel.open(path, StandardOpenOption.READ)) {
            return reading.size() > 0 && reading.read(last, reading.size() - 1) == 1 && last.get(0) != '\n';
        }
    }

    private void undo(long size) {
        try {
            channel.truncate(size);
        } catch (IOException e) {
            // The next call of `open` adds a line end to the partial line.
            closeChannel();
        }
    }

    private void rotate() throws IOException {
        closeChannel();
        for (int i = count; i > 0; i--) {
            Path from = i == 1 ? path : numbered(i - 1);
            if (Files.exists(from)) {
                Files.move(from, numbered(i), StandardCopyOption.REPLACE_EXISTING);
            }
        }
    }

    private Path numbered(int i) {
        return path.resolveSibling(path.getFileName() + "." + i);
    }

    private void closeChannel() {
        try {
            if (channel != null) {
                channel.close();
            }
        } catch (IOException e) {
            // No data is lost.
        }
        channel = null;
    }

    @Override
    public String toString() {
        return path.toString();
    }

    @Override
    public void close() {
        closeChannel();
        try {
            if (lockChannel != null) {
                lockChannel.close();
            }
        } catch (IOException e) {
            // The process releases the lock when it ends.
        }
        lockChannel = null;
        lock = null;
    }
}

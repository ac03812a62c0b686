import java.io.FileInputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Random;
import java.util.function.IntUnaryOperator;

// Reads blocks of a file by several ways through the Java library, from generated code at several depths: Reads FILE CALLS
final class Reads {
    static final int BLOCK = 4096;

    static int inOrder(FileInputStream file, byte[] block) throws IOException {
        int bytes = file.read(block);
        if (bytes < BLOCK)
            file.getChannel().position(0);
        return bytes;
    }

    static int atRandom(RandomAccessFile file, byte[] block, long at) throws IOException {
        file.seek(at);
        return file.read(block);
    }

    static int byChannel(FileChannel file, ByteBuffer block, long at) throws IOException {
        block.clear();
        return file.read(block, at);
    }

    // So that the same call has many call paths.
    static int deeper(int depth, IntUnaryOperator call) {
        return depth == 0 ? call.applyAsInt(0) : deeper(depth - 1, call) + 1;
    }

    public static void main(String[] arguments) throws Exception {
        int calls = Integer.parseInt(arguments[1]);
        byte[] block = new byte[BLOCK];
        ByteBuffer buffer = ByteBuffer.allocateDirect(BLOCK);
        Random chance = new Random(1);
        long sum = 0;
        try (FileInputStream stream = new FileInputStream(arguments[0]);
                RandomAccessFile file = new RandomAccessFile(arguments[0], "r");
                FileChannel channel = FileChannel.open(Path.of(arguments[0]))) {
            int blocks = (int) (file.length() / BLOCK);
            for (int call = 0; call < calls; call++) {
                long at = (long) chance.nextInt(blocks) * BLOCK;
                int kind = call % 3;
                sum += deeper(call % 8, unused -> {
                    try {
                        return kind == 0 ? inOrder(stream, block) : kind == 1 ? atRandom(file, block, at) : byChannel(channel, buffer, at);
                    } catch (IOException error) {
                        throw new IllegalStateException(error);
                    }
                });
            }
        }
        System.out.println(sum);
    }
}

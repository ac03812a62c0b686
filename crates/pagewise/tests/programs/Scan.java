import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

// Reads a file from begin to end, in pieces of 64 KiB, once the file `go` is there.
final class Scan {
    static long scan(String name) throws IOException {
        long sum = 0;
        byte[] piece = new byte[64 << 10];
        try (FileInputStream file = new FileInputStream(name)) {
            for (int bytes = file.read(piece); bytes > 0; bytes = file.read(piece))
                for (int at = 0; at < bytes; at += 4096)
                    sum += piece[at];
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        while (arguments.length > 1 && !Files.exists(Path.of(arguments[1])))
            Thread.sleep(10);
        System.out.println(scan(arguments[0]));
    }
}

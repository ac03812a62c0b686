/* Compresses a file in memory with libbz2, decompresses it again and compares, as SPEC's 401.bzip2 does: three buffers of
 * the file's size, and none of the input and output that the bzip2 command would have. */

#include <bzlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what) {
    fprintf(stderr, "bzip2: %s\n", what);
    exit(EXIT_FAILURE);
}

static char *read_file(const char *path, unsigned *bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        fail("cannot open the file");
    }
    const long length = ftell(file);
    if (length < 0 || length > 1 << 30) {
        fail("the file is too large");
    }
    rewind(file);
    char *original = malloc((size_t)length);
    if (original == NULL || fread(original, 1, (size_t)length, file) != (size_t)length) {
        fail("cannot read the file");
    }
    fclose(file);
    *bytes = (unsigned)length;
    return original;
}

int main(int count, char **values) {
    if (count != 2) {
        fail("usage: bzip2 FILE");
    }
    unsigned bytes = 0;
    char *original = read_file(values[1], &bytes);
    /* libbz2's own bound: one percent and 600 bytes more. */
    unsigned compressed_bytes = bytes + bytes / 100 + 600;
    char *compressed = malloc(compressed_bytes);
    unsigned restored_bytes = bytes;
    char *restored = malloc(bytes);
    if (compressed == NULL || restored == NULL) {
        fail("no memory");
    }
    if (BZ2_bzBuffToBuffCompress(compressed, &compressed_bytes, original, bytes, 9, 0, 0) != BZ_OK) {
        fail("compression failed");
    }
    printf("%u bytes are %u compressed\n", bytes, compressed_bytes);
    if (BZ2_bzBuffToBuffDecompress(restored, &restored_bytes, compressed, compressed_bytes, 0, 0) != BZ_OK) {
        fail("decompression failed");
    }
    if (restored_bytes != bytes || memcmp(original, restored, bytes) != 0) {
        fail("what came back differs");
    }
    free(original);
    free(compressed);
    free(restored);
    return EXIT_SUCCESS;
}

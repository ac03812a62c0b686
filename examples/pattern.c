/* A program whose memory accesses are fully known, and which counts its own major faults: the yardstick for
 * the exactness of a recording. Four arrays, made by malloc, calloc, mmap and as a static array, are filled
 * and then swept one after the other, pass by pass, one word read and written per page. Major faults are
 * counted per array around each sweep (getrusage), and for the whole process (getrusage, /proc/self/stat). */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST_MEBIBYTES = 256, MOST_ARRAYS = 5 };

struct arguments {
    size_t mebibytes;
    size_t passes;
    size_t zero_mebibytes;
    bool system_calls;
    bool lock;
};

/* One array and what was done to it. A touch is one access to one page, by the program or, with --syscall,
 * by the kernel for it. */
struct array {
    const char *name;
    const char *made_by;
    unsigned char *bytes;
    size_t size;
    bool read_only;
    uint64_t touches;
    uint64_t major_faults;
};

static size_t page_size;
static _Alignas(65536) unsigned char fourth[(size_t)MOST_MEBIBYTES << 20]; /* 64 KiB: the largest page size */

static void print_usage(FILE *stream) {
    fputs("usage: pattern [--mib N] [--passes N] [--zero N] [--syscall] [--mlock]\n"
          "Sweeps four arrays in a known order and prints, as JSON, touches and major faults of each.\n"
          "  --mib N     size of each array in MiB, 1 to 256 (16)\n"
          "  --passes N  sweeps over all arrays, 1 to 1000000 (4)\n"
          "  --zero N    a fifth array of N MiB: written with zeros, from then on only read\n"
          "  --syscall   after the passes, let the kernel read `second` and write `third` by way of a pipe:\n"
          "              its faults happen in kernel mode\n"
          "  --mlock     at last, mlock and munlock `first`: major faults without an exception\n",
          stream);
}

static bool parse_number(const char *text, size_t most, size_t *number) {
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < 1 || value > most) {
        return false;
    }
    *number = value;
    return true;
}

static bool parse(int count, char **values, struct arguments *arguments) {
    for (int i = 1; i < count; i++) {
        const char *next = i + 1 < count ? values[i + 1] : "";
        bool taken = false;
        if (strcmp(values[i], "--syscall") == 0) {
            arguments->system_calls = true;
            continue;
        }
        if (strcmp(values[i], "--mlock") == 0) {
            arguments->lock = true;
            continue;
        }
        if (strcmp(values[i], "--mib") == 0) {
            taken = parse_number(next, MOST_MEBIBYTES, &arguments->mebibytes);
        } else if (strcmp(values[i], "--passes") == 0) {
            taken = parse_number(next, 1000000, &arguments->passes);
        } else if (strcmp(values[i], "--zero") == 0) {
            taken = parse_number(next, 65536, &arguments->zero_mebibytes);
        }
        if (!taken) {
            return false;
        }
        i++;
    }
    return true;
}

static void fail(const char *what) {
    fprintf(stderr, "pattern: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static uint64_t major_faults_by_getrusage(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) {
        fail("getrusage");
    }
    return (uint64_t)usage.ru_majflt;
}

/* Field 12 of /proc/self/stat; the second field, the name, may itself hold blanks and parentheses. */
static uint64_t major_faults_by_proc(void) {
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        fail("/proc/self/stat");
    }
    fclose(file);
    uint64_t faults = 0;
    const char *after_name = strrchr(line, ')');
    if (after_name == NULL || sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %" SCNu64, &faults) != 1) {
        errno = EPROTO;
        fail("/proc/self/stat");
    }
    return faults;
}

/* Pages that differ from each other and are half compressible, so that no zero-page or same-page shortcut
 * of the swap device applies. The page's first word counts its sweeps and starts at 0. */
static void fill_half(const struct array *array) {
    uint64_t state = (uintptr_t)array->name[0];
    for (size_t offset = 0; offset < array->size; offset += page_size) {
        uint64_t *words = (uint64_t *)(void *)(array->bytes + offset);
        words[0] = 0;
        for (size_t word = 1; word < page_size / sizeof *words / 2; word++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            words[word] = state;
        }
    }
}

static void fill_with_zeros(const struct array *array) {
    for (size_t offset = 0; offset < array->size; offset += page_size) {
        *(volatile uint64_t *)(void *)(array->bytes + offset) = 0;
    }
}

/* Touches each page of the array once and returns the number of pages whose content was not the expected. */
static uint64_t sweep(struct array *array, uint64_t expected) {
    uint64_t wrong = 0;
    uint64_t before = major_faults_by_getrusage();
    for (size_t offset = 0; offset < array->size; offset += page_size) {
        volatile uint64_t *word = (volatile uint64_t *)(void *)(array->bytes + offset);
        wrong += *word != expected;
        if (!array->read_only) {
            *word = expected + 1;
        }
        array->touches++;
    }
    array->major_faults += major_faults_by_getrusage() - before;
    return wrong;
}

/* Has the kernel read each page of `from` and write it to the same place in `to`. A pipe, because
 * /dev/null takes a write without looking at it. */
static void copy_through_pipe(struct array *from, struct array *to) {
    int ends[2];
    if (pipe(ends) != 0) {
        fail("pipe");
    }
    for (size_t offset = 0; offset < from->size; offset += page_size) {
        uint64_t begin = major_faults_by_getrusage();
        if (write(ends[1], from->bytes + offset, page_size) != (ssize_t)page_size) {
            fail("write to a pipe");
        }
        uint64_t middle = major_faults_by_getrusage();
        if (read(ends[0], to->bytes + offset, page_size) != (ssize_t)page_size) {
            fail("read from a pipe");
        }
        from->major_faults += middle - begin;
        to->major_faults += major_faults_by_getrusage() - middle;
        from->touches++;
        to->touches++;
    }
    close(ends[0]);
    close(ends[1]);
}

static void lock_and_unlock(struct array *array) {
    uint64_t before = major_faults_by_getrusage();
    if (mlock(array->bytes, array->size) != 0) {
        fail("mlock (raise `ulimit -l`, take a smaller --mib, or run as root)");
    }
    array->touches += array->size / page_size;
    array->major_faults += major_faults_by_getrusage() - before;
    munlock(array->bytes, array->size);
}

static unsigned char *map(size_t size) {
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
}

/* malloc and calloc do not begin at a page; the bytes before the first whole page are left alone. */
static unsigned char *at_page(unsigned char *bytes) {
    size_t past = (uintptr_t)bytes % page_size;
    return past == 0 ? bytes : bytes + (page_size - past);
}

static size_t make_arrays(const struct arguments *arguments, struct array *arrays) {
    size_t size = arguments->mebibytes << 20;
    /* One variable per array: allocation sites are named after the variable that takes the pointer. */
    unsigned char *first = malloc(size + page_size);
    unsigned char *second = calloc(size / page_size + 1, page_size);
    unsigned char *third = map(size);
    if (first == NULL || second == NULL || third == NULL) {
        fail("no memory; take a smaller --mib");
    }
    arrays[0] = (struct array){.name = "first", .made_by = "malloc", .bytes = at_page(first), .size = size};
    arrays[1] = (struct array){.name = "second", .made_by = "calloc", .bytes = at_page(second), .size = size};
    arrays[2] = (struct array){.name = "third", .made_by = "mmap", .bytes = third, .size = size};
    arrays[3] = (struct array){.name = "fourth", .made_by = "static", .bytes = fourth, .size = size};
    if (arguments->zero_mebibytes == 0) {
        return 4;
    }
    unsigned char *zero = map(arguments->zero_mebibytes << 20);
    if (zero == NULL) {
        fail("no memory; take a smaller --zero");
    }
    arrays[4] = (struct array){.name = "zero",
                               .made_by = "mmap",
                               .bytes = zero,
                               .size = arguments->zero_mebibytes << 20,
                               .read_only = true};
    return 5;
}

static void print_json(const struct array *arrays, size_t count, const struct arguments *arguments,
                       uint64_t since_fill) {
    printf("{\"schema\": \"pagewise.pattern/1\", \"page_size\": %zu, \"passes\": %zu, \"arrays\": [", page_size,
           arguments->passes);
    for (size_t i = 0; i < count; i++) {
        printf("%s\n  {\"name\": \"%s\", \"made_by\": \"%s\", \"address\": %" PRIuPTR ", \"bytes\": %zu, "
               "\"touches\": %" PRIu64 ", \"major_faults\": %" PRIu64 "}",
               i == 0 ? "" : ",", arrays[i].name, arrays[i].made_by, (uintptr_t)arrays[i].bytes, arrays[i].size,
               arrays[i].touches, arrays[i].major_faults);
    }
    printf("],\n \"major_faults_after_fill\": %" PRIu64 ", \"ru_majflt\": %" PRIu64 ", \"stat_majflt\": %" PRIu64
           "}\n",
           since_fill, major_faults_by_getrusage(), major_faults_by_proc());
}

int main(int count, char **values) {
    struct arguments arguments = {.mebibytes = 16, .passes = 4};
    if (count == 2 && strcmp(values[1], "--help") == 0) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (!parse(count, values, &arguments)) {
        print_usage(stderr);
        return 2;
    }
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    struct array arrays[MOST_ARRAYS];
    size_t array_count = make_arrays(&arguments, arrays);
    for (size_t i = 0; i < array_count; i++) {
        if (arrays[i].read_only) {
            fill_with_zeros(&arrays[i]);
        } else {
            fill_half(&arrays[i]);
        }
    }
    uint64_t after_fill = major_faults_by_getrusage();
    uint64_t wrong = 0;
    for (size_t pass = 0; pass < arguments.passes; pass++) {
        for (size_t i = 0; i < array_count; i++) {
            wrong += sweep(&arrays[i], arrays[i].read_only ? 0 : pass);
        }
    }
    if (arguments.system_calls) {
        copy_through_pipe(&arrays[1], &arrays[2]);
    }
    if (arguments.lock) {
        lock_and_unlock(&arrays[0]);
    }
    print_json(arrays, array_count, &arguments, major_faults_by_getrusage() - after_fill);
    if (wrong != 0) {
        fprintf(stderr, "pattern: %" PRIu64 " pages did not hold what was written to them\n", wrong);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

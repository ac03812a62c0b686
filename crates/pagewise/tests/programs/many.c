/* Lives as many processes at once: many CHILDREN. Each allocates, all are alive for a second, then it ends. Prints its limit of descriptors. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate(void) {
    enum { BYTES = 1 << 20 };
    volatile char *bytes = malloc(BYTES);
    if (bytes == NULL) {
        exit(3);
    }
    memset((char *)bytes, 1, BYTES);
}

int main(int count, char **values) {
    int children = count > 1 ? atoi(values[1]) : 0;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    printf("%lu\n", (unsigned long)files.rlim_cur);
    fflush(stdout);
    for (int child = 0; child < children; child++) {
        pid_t pid = fork();
        if (pid < 0) {
            return 2;
        }
        if (pid == 0) {
            allocate();
            sleep(2);
            _exit(0);
        }
    }
    allocate();
    while (wait(NULL) > 0) {
    }
    return 0;
}

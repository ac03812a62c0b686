/* Lives as many processes at once: many CHILDREN [MEBIBYTES [SECONDS]]. Each allocates 1 MiB, and all share so many that their
 * parent has filled before; after two seconds, or so many, it ends. Prints its limit of descriptors. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *volatile kept; // or the compiler would leave it all out

static void allocate(size_t mebibytes) {
    kept = malloc(mebibytes << 20);
    if (kept == NULL) {
        exit(3);
    }
    memset(kept, 1, mebibytes << 20);
}

int main(int count, char **values) {
    int children = count > 1 ? atoi(values[1]) : 0;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    printf("%lu\n", (unsigned long)files.rlim_cur);
    fflush(stdout);
    allocate(count > 2 ? strtoul(values[2], NULL, 10) : 1);
    for (int child = 0; child < children; child++) {
        pid_t pid = fork();
        if (pid < 0) {
            return 2;
        }
        if (pid == 0) {
            allocate(1);
            sleep(count > 3 ? atoi(values[3]) : 2);
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
    }
    return 0;
}

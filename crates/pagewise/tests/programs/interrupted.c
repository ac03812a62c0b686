/* Sweeps over 48 MiB on one processor, which it shares with a child that does nothing but take its time. Prints how long it was ready to run
 * and waited for the processor, ns, from the second sweep on: as the kernel counts it. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define WORDS (48u << 20 >> 3)

static unsigned long long run_delay(void) {
    unsigned long long ran, waited;
    FILE *counts = fopen("/proc/self/schedstat", "r");
    if (counts == NULL || fscanf(counts, "%llu %llu", &ran, &waited) != 2) {
        exit(3);
    }
    fclose(counts);
    return waited;
}

int main(void) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        return 1;
    }
    int first = 0;
    while (!CPU_ISSET(first, &all)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile int i = 0;; i++) {
        }
    }
    uint64_t *words = malloc(WORDS * sizeof *words);
    if (child < 0 || words == NULL) {
        return 1;
    }
    for (size_t i = 0; i < WORDS; i++) {
        words[i] = i;
    }
    uint64_t sum = 0;
    unsigned long long before = 0;
    for (int sweep = 0; sweep < 4; sweep++) {
        if (sweep == 1) {
            before = run_delay();
        }
        for (size_t i = 0; i < WORDS; i++) {
            sum = sum * 31 + words[i] % 7;
        }
    }
    kill(child, SIGKILL);
    printf("%llu\n", run_delay() - before);
    return sum == 42;
}

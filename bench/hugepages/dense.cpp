// A dense hash map that grows: Google's, of Debian's libsparsehash-dev. usage: dense MILLIONS. Prints seconds, page faults, and how long the kernel worked for it, ns.
#include <sparsehash/dense_hash_map>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sys/resource.h>

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + double(time.tv_nsec) / 1e9;
}

// Of this thread: a helper's are not the program's.
static rusage used() {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage;
}

static int64_t system_ns(const rusage &usage) {
    return (usage.ru_stime.tv_sec * 1000000ll + usage.ru_stime.tv_usec) * 1000;
}

int main(int count, char **words) {
    if (count != 2)
        return 2;
    const uint64_t keys = strtoull(words[1], nullptr, 10) * 1000000;
    google::dense_hash_map<uint64_t, uint64_t> map;
    map.set_empty_key(UINT64_MAX);
    const rusage before = used();
    const double began = now();
    uint64_t key = 1;
    for (uint64_t i = 0; i < keys; i++) {
        key = key * 6364136223846793005u + 1442695040888963407u;
        map[key >> 8] = i;
    }
    const double seconds = now() - began;
    const rusage after = used();
    printf("%.6f %ld %ld\n", seconds, after.ru_minflt - before.ru_minflt, long(system_ns(after) - system_ns(before)));
    return map.empty();
}

/* Hints to Pagewise from the program itself, in C and C++. Under `pagewise apply` they are obeyed within the budget of the
 * plan; otherwise each does nothing and costs a comparison. Nothing is linked; before glibc 2.34, -ldl is.
 *
 *     size_t kept = pagewise_lock(table, bytes);    keep in memory as much as the budget allows, from the start
 *     pagewise_unlock(table, bytes);                give that back
 *     pagewise_prefetch(next, bytes);               read in from swap, without waiting for it
 *     pagewise_release(previous, bytes);            not needed for a while: page it out
 *     pagewise_phase_begin("solve");                the accesses change: what did not help before may help now
 *     pagewise_phase_end("solve");
 *
 * Ranges need no alignment. Contents never change. With PAGEWISE_DISABLE defined (static programs) nothing is looked up. */
#ifndef PAGEWISE_H
#define PAGEWISE_H

#include <stddef.h>

#ifndef PAGEWISE_DISABLE
#include <dlfcn.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct pagewise_runtime {
    int looked_up;
    size_t (*lock)(const void *, size_t);
    void (*unlock)(const void *, size_t);
    void (*prefetch)(const void *, size_t);
    void (*release)(const void *, size_t);
    void (*phase_begin)(const char *);
    void (*phase_end)(const char *);
};

/* POSIX lets a pointer to a function be stored by way of a pointer to an object. */
static inline void pagewise_find(void *place, const char *name) {
#ifdef PAGEWISE_DISABLE
    (void)place;
    (void)name;
#else
    *(void **)place = dlsym(NULL, name); /* NULL: RTLD_DEFAULT */
#endif
}

/* Threads that come here at once find the same. */
static inline const struct pagewise_runtime *pagewise_runtime(void) {
    static struct pagewise_runtime runtime;
    if (!__atomic_load_n(&runtime.looked_up, __ATOMIC_ACQUIRE)) {
        pagewise_find(&runtime.lock, "pagewise_runtime_lock");
        pagewise_find(&runtime.unlock, "pagewise_runtime_unlock");
        pagewise_find(&runtime.prefetch, "pagewise_runtime_prefetch");
        pagewise_find(&runtime.release, "pagewise_runtime_release");
        pagewise_find(&runtime.phase_begin, "pagewise_runtime_phase_begin");
        pagewise_find(&runtime.phase_end, "pagewise_runtime_phase_end");
        __atomic_store_n(&runtime.looked_up, 1, __ATOMIC_RELEASE);
    }
    return &runtime;
}

/* How many bytes are locked now; 0 without the runtime. */
static inline size_t pagewise_lock(const void *start, size_t bytes) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    return runtime->lock != NULL ? runtime->lock(start, bytes) : 0;
}

static inline void pagewise_unlock(const void *start, size_t bytes) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->unlock != NULL) {
        runtime->unlock(start, bytes);
    }
}

static inline void pagewise_prefetch(const void *start, size_t bytes) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->prefetch != NULL) {
        runtime->prefetch(start, bytes);
    }
}

static inline void pagewise_release(const void *start, size_t bytes) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->release != NULL) {
        runtime->release(start, bytes);
    }
}

static inline void pagewise_phase_begin(const char *name) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->phase_begin != NULL) {
        runtime->phase_begin(name);
    }
}

static inline void pagewise_phase_end(const char *name) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->phase_end != NULL) {
        runtime->phase_end(name);
    }
}

#ifdef __cplusplus
}
#endif

#endif

/* Hints to Pagewise from the program itself, in C and C++. Under `pagewise apply` they are obeyed within the budget of the
 * plan, and `pagewise record` hears of names; otherwise each does nothing and costs a comparison. Nothing is linked; before
 * glibc 2.34, -ldl is. `pagewise annotate` writes such calls into a source.
 *
 *     size_t kept = pagewise_lock(table, bytes);    keep in memory as much as the budget allows, from the start
 *     pagewise_lock_part(table, bytes, from, to);   the same of a part, by offsets; what is beyond its size is left out
 *     pagewise_unlock(table, bytes);                give that back
 *     pagewise_stream(array, bytes, keep);          swept again and again: keep so much, read the rest ahead of the sweep
 *     pagewise_prefetch(next, bytes);               read in from swap, without waiting for it
 *     pagewise_release(previous, bytes);            not needed for a while: page it out
 *     pagewise_phase_begin("solve");                the accesses change: what did not help before may help now
 *     pagewise_phase_end("solve");
 *     pagewise_name(table, "table");                what the report calls the allocation that this points into
 *
 * Where a thread reads or writes files for another one, the call path says nothing of what for. With these, its I/O counts, and
 * is hinted, as done by the path that has queued it (`pagewise record --io`, and rules about I/O):
 *
 *     job->from = pagewise_handover();              where work is queued; pagewise_handover_t, kept with the work
 *     pagewise_on_behalf_of(job->from);             in the thread that does it,
 *     pagewise_done();                              until this, or the next work
 *
 * In C++ also pagewise_data(x) and pagewise_bytes(x): where the memory of a pointer, smart pointer or container is, and how
 * much a container has; NULL and 0 of anything else.
 *
 * Ranges need no alignment; NULL and MAP_FAILED are ignored. Contents never change. With PAGEWISE_DISABLE defined (static programs) nothing is looked up. */
#ifndef PAGEWISE_H
#define PAGEWISE_H

#include <stddef.h>

#ifndef PAGEWISE_DISABLE
#include <dlfcn.h>
#endif

/* GCC warns of fresh memory that is handed to who may read it: here nobody does. */
#ifdef __has_attribute
#if __has_attribute(access)
#define PAGEWISE_NO_ACCESS __attribute__((access(none, 1)))
#endif
#endif
#ifndef PAGEWISE_NO_ACCESS
#define PAGEWISE_NO_ACCESS
#endif

/* Old C (-ansi, -std=c89) has no word for it. */
#ifdef __GNUC__
#define PAGEWISE_INLINE __inline__
#else
#define PAGEWISE_INLINE inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* By which call path work was handed over; all zero: by none. */
typedef struct {
    unsigned long path;
    unsigned long rules;
} pagewise_handover_t;

struct pagewise_runtime {
    int looked_up;
    size_t (*lock)(const volatile void *, size_t);
    void (*unlock)(const volatile void *, size_t);
    void (*prefetch)(const volatile void *, size_t);
    void (*release)(const volatile void *, size_t);
    void (*stream)(const volatile void *, size_t, size_t);
    void (*name)(const volatile void *, const char *);
    void (*phase_begin)(const char *);
    void (*phase_end)(const char *);
    pagewise_handover_t (*handover)(void);
    void (*on_behalf_of)(pagewise_handover_t);
    void (*done)(void);
};

/* POSIX lets a pointer to a function be stored by way of a pointer to an object. */
static PAGEWISE_INLINE void pagewise_find(void *place, const char *name) {
#ifdef PAGEWISE_DISABLE
    (void)place;
    (void)name;
#else
    *(void **)place = dlsym(NULL, name); /* NULL: RTLD_DEFAULT */
#endif
}

/* Threads that come here at once find the same. */
static PAGEWISE_INLINE const struct pagewise_runtime *pagewise_runtime(void) {
    static struct pagewise_runtime runtime;
    if (!__atomic_load_n(&runtime.looked_up, __ATOMIC_ACQUIRE)) {
        pagewise_find(&runtime.lock, "pagewise_runtime_lock");
        pagewise_find(&runtime.unlock, "pagewise_runtime_unlock");
        pagewise_find(&runtime.prefetch, "pagewise_runtime_prefetch");
        pagewise_find(&runtime.release, "pagewise_runtime_release");
        pagewise_find(&runtime.stream, "pagewise_runtime_stream");
        pagewise_find(&runtime.name, "pagewise_runtime_name");
        pagewise_find(&runtime.phase_begin, "pagewise_runtime_phase_begin");
        pagewise_find(&runtime.phase_end, "pagewise_runtime_phase_end");
        pagewise_find(&runtime.handover, "pagewise_runtime_handover");
        pagewise_find(&runtime.on_behalf_of, "pagewise_runtime_on_behalf_of");
        pagewise_find(&runtime.done, "pagewise_runtime_done");
        __atomic_store_n(&runtime.looked_up, 1, __ATOMIC_RELEASE);
    }
    return &runtime;
}

/* How many bytes are locked now; 0 without the runtime. */
PAGEWISE_NO_ACCESS
static PAGEWISE_INLINE size_t pagewise_lock(const volatile void *start, size_t bytes) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    return runtime->lock != NULL ? runtime->lock(start, bytes) : 0;
}

PAGEWISE_NO_ACCESS
static PAGEWISE_INLINE size_t pagewise_lock_part(const volatile void *start, size_t bytes, size_t from, size_t to) {
    const size_t end = to < bytes ? to : bytes;
    return from < end ? pagewise_lock((const volatile char *)start + from, end - from) : 0;
}

PAGEWISE_NO_ACCESS
static PAGEWISE_INLINE void pagewise_unlock(const volatile void *start, size_t bytes) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->unlock != NULL) {
        runtime->unlock(start, bytes);
    }
}

PAGEWISE_NO_ACCESS
static PAGEWISE_INLINE void pagewise_prefetch(const volatile void *start, size_t bytes) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->prefetch != NULL) {
        runtime->prefetch(start, bytes);
    }
}

PAGEWISE_NO_ACCESS
static PAGEWISE_INLINE void pagewise_release(const volatile void *start, size_t bytes) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->release != NULL) {
        runtime->release(start, bytes);
    }
}

PAGEWISE_NO_ACCESS
static PAGEWISE_INLINE void pagewise_stream(const volatile void *start, size_t bytes, size_t keep) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->stream != NULL) {
        runtime->stream(start, bytes, keep);
    }
}

PAGEWISE_NO_ACCESS
static PAGEWISE_INLINE void pagewise_name(const volatile void *start, const char *name) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->name != NULL) {
        runtime->name(start, name);
    }
}

static PAGEWISE_INLINE void pagewise_phase_begin(const char *name) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->phase_begin != NULL) {
        runtime->phase_begin(name);
    }
}

static PAGEWISE_INLINE void pagewise_phase_end(const char *name) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->phase_end != NULL) {
        runtime->phase_end(name);
    }
}

static PAGEWISE_INLINE pagewise_handover_t pagewise_handover(void) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    const pagewise_handover_t none = {0, 0};
    return runtime->handover != NULL ? runtime->handover() : none;
}

static PAGEWISE_INLINE void pagewise_on_behalf_of(pagewise_handover_t handover) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->on_behalf_of != NULL) {
        runtime->on_behalf_of(handover);
    }
}

static PAGEWISE_INLINE void pagewise_done(void) {
    const struct pagewise_runtime *runtime = pagewise_runtime();
    if (runtime->done != NULL) {
        runtime->done();
    }
}

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && __cplusplus >= 201103L
/* The first that fits: int is nearer to int than long is, and anything is nearer than an ellipsis. */
namespace pagewise_detail {
template <class T>
const volatile void *data(T *const &pointer, int, int) {
    return pointer;
}
template <class T>
auto data(const T &container, int, int)
    -> decltype(container.capacity(), static_cast<const volatile void *>(container.data())) {
    return container.data();
}
template <class T>
auto data(const T &smart, int, long) -> decltype(static_cast<const volatile void *>(smart.get())) {
    return smart.get();
}
template <class T>
const volatile void *data(const T &, long, long) {
    return nullptr;
}
template <class T>
auto bytes(const T &container, int)
    -> decltype(static_cast<const volatile void *>(container.data()), size_t(container.capacity())) {
    return container.capacity() * sizeof(*container.data());
}
template <class T>
size_t bytes(const T &, long) {
    return 0;
}
} // namespace pagewise_detail

template <class T>
const volatile void *pagewise_data(const T &object) {
    return pagewise_detail::data(object, 0, 0);
}
template <class T>
size_t pagewise_bytes(const T &object) {
    return pagewise_detail::bytes(object, 0);
}
#endif

#endif

/* A library that errs in the process that it is loaded into: preloaded, with PLANTED_IN naming the program and PLANTED the error.
 * With PLANTED_EARLY its constructor errs, before the program begins; else a thread does while the program is at work, for which a
 * program that ends sooner waits. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *object, *second;
static volatile char sink;
static pthread_t thread;
static int errs_later;

static void overflow_read(void) { sink = object[24]; }
static void underflow_write(void) { object[-1] = 1; free(object); }
static void use_after_free(void) { free(second); sink = second[3]; }
static void double_free(void) { free(second); free(second); }

static const struct {
    const char *name;
    void (*err)(void);
} errors[] = {
    {"heap-buffer-overflow", overflow_read},
    {"heap-buffer-underflow", underflow_write},
    {"heap-use-after-free", use_after_free},
    {"double-free", double_free},
};

static void *err_later(void *which)
{
    struct timespec while_at_work = {0, 10 * 1000 * 1000};
    nanosleep(&while_at_work, NULL);
    errors[(size_t)which].err();
    return NULL;
}

__attribute__((constructor)) static void plant(int count, char **arguments)
{
    const char *place = getenv("PLANTED_IN"), *kind = getenv("PLANTED");
    const char *name = count > 0 ? strrchr(arguments[0], '/') : NULL;
    name = name ? name + 1 : count > 0 ? arguments[0] : "";
    if (!place || !kind || strcmp(place, name))
        return;
    object = malloc(24);
    second = malloc(24);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (strcmp(errors[i].name, kind))
            continue;
        if (getenv("PLANTED_EARLY"))
            errors[i].err();
        else
            errs_later = !pthread_create(&thread, NULL, err_later, (void *)i);
    }
}

__attribute__((destructor)) static void wait_for_it(void)
{
    if (errs_later)
        pthread_join(thread, NULL);
}

/* Allocations of a C program; "name:" comments say what each is called ("-" for no name). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { N = 70000 };

#define ALLOC(pointer, bytes)                                                                     \
    do {                                                                                          \
        (pointer) = malloc(bytes);                                                                \
        if (!(pointer))                                                                           \
            abort();                                                                              \
    } while (0)
#define CHECK(expression)                                                                         \
    do {                                                                                          \
        if (!(expression))                                                                        \
            abort();                                                                              \
    } while (0)

struct table {
    double *cells;
    struct {
        char *text;
    } label;
};

static volatile size_t n = N;
static double *global;
static char *rows[4];

/* Keeps the optimizer from removing allocations nobody uses. */
__attribute__((noinline)) void keep(void *pointer)
{
    __asm__ volatile("" : : "r"(pointer) : "memory");
}

static void *xmalloc(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p)
        abort();
    return p;
}

void *xcalloc(size_t count, size_t bytes)
{
    return calloc(count, bytes);
}

__attribute__((noinline)) static void *twice_wrapped(size_t bytes)
{
    char *memory = xmalloc(bytes);
    memory[0] = 1;
    return memory;
}

__attribute__((noinline)) static int make_cells(double **out, size_t count)
{
    *out = malloc(count * sizeof **out);
    return *out ? 0 : -1;
}

__attribute__((noinline)) static struct table *make_table(void)
{
    struct table *made = xcalloc(1, sizeof *made + n);
    made->cells = malloc(n * sizeof(double)); /* name: made->cells */
    keep(made->cells);
    return made;
}

__attribute__((noinline)) static void only_used(void *pointer)
{
    keep(pointer);
    free(pointer);
}

static void plain(void)
{
    double *a = malloc(n * sizeof *a); /* name: a */
    keep(a);
    char *b;
    b = (char *)calloc(n, 2); /* name: b */
    keep(b);
    b = realloc(b, 3 * n); /* name: b */
    keep(b);
    global = malloc(n); /* name: global */
    keep(global);
    rows[n % 4] = malloc(n); /* name: rows[] */
    keep(rows);
    static char *once;
    once = malloc(n); /* name: once */
    keep(once);
    void *mapped = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* name: mapped */
    keep(mapped);
    void *aligned = aligned_alloc(64, 64 * n); /* name: aligned */
    keep(aligned);
    int *c, *d;
    if (!(c = malloc(n))) /* name: c */
        abort();
    keep(c);
    d = n > 1 ? malloc(n) : NULL; /* name: d */
    keep(d);
}

static void members(struct table *t)
{
    t->cells = malloc(n * 8); /* name: t->cells */
    keep(t->cells);
    t->label.text = malloc(n); /* name: t->label.text */
    keep(t->label.text);
    struct table local = {.cells = malloc(n)}; /* name: local.cells */
    keep(local.cells);
}

static void by_argument(void)
{
    double *p, *q;
    if (posix_memalign((void **)&p, 64, n)) /* name: p */
        abort();
    keep(p);
    int rc = make_cells(&q, n); /* name: q */
    keep(q);
    keep(&rc);
    char *text;
    if (asprintf(&text, "%*d", N, 1) < 0) /* name: text */
        abort();
    keep(text);
}

static void wrapped(void)
{
    char *e = xmalloc(n); /* name: e */
    keep(e);
    double *f = xcalloc(n, sizeof *f); /* name: f */
    keep(f);
    char *g = twice_wrapped(n); /* name: g */
    keep(g);
    struct table *h = make_table(); /* name: h */
    keep(h);
    char *copy = strdup(e ? memset(e, 'x', n - 1) : ""); /* name: copy */
    keep(copy);
}

static void by_macro(void)
{
    char *i, *j;
    ALLOC(i, n); /* name: i */
    keep(i);
    CHECK(j = malloc(n)); /* name: j */
    keep(j);
}

static void long_statement(void)
{
    double *k = /* name: k */
        malloc(
            n *
            sizeof(double));
    keep(k);
}

static void nameless(void)
{
    only_used(malloc(n)); /* name: - */
}

int main(void)
{
    static struct table t;
    plain();
    members(&t);
    by_argument();
    wrapped();
    by_macro();
    long_statement();
    nameless();
    return 0;
}

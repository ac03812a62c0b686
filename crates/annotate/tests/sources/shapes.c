/* Each way to keep memory in C. "named X": a call follows that names X; "refused": none can. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h> /* a comment that
                       goes on */
#include <sys/mman.h>

struct node {
    struct node *next;
    char *data;
    char *rows[4];
};

typedef char *text;

struct pair {
    char *a, *b;
};

static long total;
static char *kept;

static void count(const void *memory) {
    total += memory != NULL;
}

static void *xmalloc(size_t n) {
    void *p = malloc(n);
    if (p == NULL) {
        abort();
    }
    return p;
}

static char *direct(size_t n) {
    return malloc(n); /* refused */
}

static int out(char **result, size_t n) {
    *result = malloc(n); /* named *result */
    return *result != NULL;
}

static int statements(size_t n) {
    char *a = malloc(n), *b = calloc(n, 2); /* named a, named b */
    char *c; c = malloc(n); count(c); /* named c */
    text t = malloc(n); /* named t */
    uintptr_t number = (uintptr_t)malloc(n); /* named number */
    const volatile char *odd = malloc(n); /* named odd */
    char *first, *second;
    first = second = malloc(n); /* named second */
    a[0] = 1, kept = realloc(a, n * 2); /* named kept */
    char *x = xmalloc(n); /* named x */
    char *over =
        malloc( /* named over */
            n *
            sizeof(char));
    void *aligned = NULL;
    if (posix_memalign(&aligned, 64, n)) return 1; /* named aligned */
    int failed = posix_memalign((void **)&first, 64, n); /* named first */
    char *map = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* named map */
    char *wide = aligned_alloc(64, 64 * n); /* named wide */
    count(kept), count(b), count(t), count((void *)number), count((const void *)odd);
    count(first), count(second), count(x), count(over), count(aligned), count(map), count(wide);
    munmap(map, n);
    return failed;
}

static int unbraced(size_t n, int how) {
    char *p = NULL;
    struct node *list = NULL;
    if (how) p = malloc(n); /* named p */
    else
        p = calloc(1, n); /* named p */
    for (int i = 0; i < 3; i++)
        if (how != i)
            kept = malloc(n); // named kept
    do kept = malloc(n); while (kept == NULL); /* named kept */
    switch (how) {
    case 0:
        p = malloc(n); /* named p */
        break;
    case 1: { p = malloc(n); } break; /* named p */
    default: p = malloc(n); /* named p */
    }
    if (n == 0)
        goto again;
again: p = malloc(n); /* named p */
    if ((list = malloc(sizeof *list)) == NULL) { /* named list */
        return 1;
    }
    if (!(list->data = malloc(n))) /* named list->data */
        exit(1);
    list->next = NULL;
    for (int i = 0; i < 4; i++) {
        list->rows[i] = malloc(n); /* named list->rows[] */
        count(list->rows[i]);
    }
#ifdef NEVER
    p = malloc(n + 1); /* named p */
#else
    p = malloc(n + 2); /* named p */
#endif
    count(p), count(list->data);
    return out(&p, n) - 1;
}

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define FRESH(n) malloc(n) /* refused */
#define CHECK(x) do { if (!(x)) abort(); } while (0)

static int refused(size_t n) {
    char *p = NULL;
    char *row[3] = {NULL, NULL, NULL};
    int i = 0;
    struct pair pair = {malloc(n), NULL}; /* refused */
    struct pair named = {.a = NULL, .b = malloc(n)}; /* refused */
    CHECK(p = malloc(n)); /* refused */
    if (LIKELY(p = malloc(n))) count(p); /* refused */
    if ((p = malloc(n)) != NULL) count(p); /* refused */
    while ((p = malloc(n)) == NULL) {} /* refused */
    for (p = malloc(n); i < 1; i++) count(p); /* refused */
    if (n > 1 && (p = malloc(n)) == NULL) return 1; /* refused */
    count(malloc(n)); /* refused */
    p = n > 3 ? malloc(n) : NULL; /* refused */
    row[i++] = malloc(n); /* refused */
    char *end = (char *)malloc(n) + n; /* refused */
    char *f = FRESH(n); /* refused */
    char *g = ({ (void)n; p = malloc(n); }); /* refused */
    count(pair.a), count(named.b), count(p), count(row[0]), count(end), count(f), count(g);
    return 0;
}

int main(void) {
    int wrong = statements(100000) + unbraced(70000, 1) + refused(50) + (direct(9) == NULL);
    printf("%d %ld\n", wrong, total);
    return wrong;
}

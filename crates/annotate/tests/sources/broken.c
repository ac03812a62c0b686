/* Macros that only a preprocessor understands, and what is around them. */
#include <stdio.h>
#include <stdlib.h>
#define EACH(i, n) for (int i = 0; i < (n); i++)
#define UNLESS(x) if (!(x))
#define BEGIN {
#define END }

int main(void) {
    char *p = NULL, *q = malloc(8); /* named q */
    EACH(i, 3) p = malloc(5); /* refused */
    UNLESS(p) q = malloc(6); /* refused */
    if (p) BEGIN q = malloc(7); END /* refused */
    printf("%d\n", p && q);
    return 0;
}

#include <stdio.h>
#include <stdlib.h>
	/* tabs, several statements on a line, no end of the last line */
static void	*keep(size_t n) { void *p = malloc(n); return p; } /* named p */
	static int	twice(void) {
	 	char	*a	= malloc( 70000 ) ;	/* named a */
	 	char	*b	= malloc(9); /* named b */ char *c = malloc(9); /* named c */ // and
		return a && b && c; }
int main(void) { char *d = keep(80000); if (!d) return 1; printf("%d\n", twice()); return 0; }
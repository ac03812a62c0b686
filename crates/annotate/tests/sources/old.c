/* Before C had prototypes. */
extern int printf();
extern char *malloc(), *calloc();

char *copy(from, n)
    char *from;
    unsigned long n;
{
    char *to;
    unsigned long i;

    to = malloc(n); /* named to */
    if (!to)
        return 0;
    for (i = 0; i < n; i++)
        to[i] = from[i];
    return to;
}

int main()
{
    static char text[] = "old";
    char *a = calloc(1ul, 70000ul); /* named a */
    char *b = copy(text, 4ul);
    printf("%d %s\n", a[69999], b);
    return 0;
}

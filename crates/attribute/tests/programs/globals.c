/* Static storage of C; "global:" comments say what each is called. */
__attribute__((used)) static int numbers[5000]; /* global: numbers */
double cells[5000] = {1}; /* global: cells */

static int *first(int index)
{
    static int table[5000]; /* global: first::table */
    return &table[index];
}

static int *second(int index)
{
    static int table[5000]; /* global: second::table */
    return &table[index];
}

int main(int argc, char **argv)
{
    (void)argv;
    *first(argc) = *second(argc) = numbers[argc] = (int)cells[argc];
    return *first(argc + 1) + *second(argc + 2);
}

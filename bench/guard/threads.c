/* usage: threads COUNT ROUNDS   so many threads at once make parcels, put each in the next thread's box, and open and give back what
 * they find in that box and in their own. Prints how many bytes were looked at. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1000, KEPT = 16 };

struct parcel {
    size_t bytes;
    long maker;
    char contents[];
};

static struct {
    pthread_mutex_t lock;
    struct parcel *parcel;
} boxes[MOST];
static long count, rounds, looked_at[MOST];

static struct parcel *swap(long box, struct parcel *with)
{
    pthread_mutex_lock(&boxes[box].lock);
    struct parcel *found = boxes[box].parcel;
    boxes[box].parcel = with;
    pthread_mutex_unlock(&boxes[box].lock);
    return found;
}

static struct parcel *make(long maker, long round)
{
    size_t bytes = 1 + (size_t)(maker + round) * 37 % 300;
    struct parcel *parcel = malloc(sizeof *parcel + bytes);
    parcel->bytes = bytes;
    parcel->maker = maker;
    memset(parcel->contents, (int)maker, bytes);
    return parcel;
}

static void open_parcel(struct parcel *parcel, long who)
{
    if (!parcel)
        return;
    for (size_t i = 0; i < parcel->bytes; i++)
        if (parcel->contents[i] != (char)parcel->maker)
            abort();
    looked_at[who] += (long)parcel->bytes;
    free(parcel);
}

static void *work(void *argument)
{
    long me = (long)argument, next = (me + 1) % count;
    char *kept[KEPT] = {0};
    for (long round = 0; round < rounds; round++) {
        free(kept[round % KEPT]);
        kept[round % KEPT] = calloc(1, 24);
        open_parcel(swap(next, make(me, round)), me);
        open_parcel(swap(me, NULL), me);
    }
    for (int i = 0; i < KEPT; i++)
        free(kept[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[MOST];
    count = argc > 2 ? atol(argv[1]) : 0;
    rounds = argc > 2 ? atol(argv[2]) : 0;
    if (count < 1 || count > MOST || rounds < 1)
        return 2;
    for (long i = 0; i < count; i++)
        pthread_mutex_init(&boxes[i].lock, NULL);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i))
            return 1;
    long all = 0;
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (long i = 0; i < count; i++) {
        open_parcel(swap(i, NULL), i);
        all += looked_at[i];
    }
    printf("%ld bytes in %ld threads\n", all, count);
    return 0;
}

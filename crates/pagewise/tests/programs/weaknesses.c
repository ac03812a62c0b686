/* Weaknesses of heap objects by the definitions of the Common Weakness Enumeration (CWE 122, 124, 126, 127, 415, 416, 590,
 * 761), each in many forms, with a right variant of each. usage: weaknesses list | bad | good
 * `bad` runs each in a process of its own; `list` prints name, kind expected, and 1 if one run with objects that end at guards must find it. */
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

typedef struct {
    int one, two;
} pair;

static int good;
static volatile long sink;
static FILE *nowhere;

void *__memcpy_chk(void *, const void *, size_t, size_t);
char *__strcpy_chk(char *, const char *, size_t);
ssize_t __read_chk(int, void *, size_t, size_t);

static void *of(size_t bytes)
{
    void *object = malloc(bytes);
    if (!object)
        abort();
    return object;
}

/* CWE 122: a buffer of 50 elements gets 100. */
#define LONGER(type, how, statement)                                                                                           \
    static void longer_##type##_##how(void)                                                                                    \
    {                                                                                                                          \
        type source[100] = {0};                                                                                                \
        type *data = of((good ? 100 : 50) * sizeof *data);                                                                     \
        statement;                                                                                                             \
        sink = *(char *)data;                                                                                                  \
        free(data);                                                                                                            \
    }
#define BY_ELEMENTS(type)                                                                                                      \
    LONGER(type, loop, for (size_t i = 0; i < 100; i++) data[i] = source[i])                                                   \
    LONGER(type, backwards, for (size_t i = 100; i > 0; i--) data[i - 1] = source[i - 1])                                      \
    LONGER(type, memcpy, memcpy(data, source, sizeof source))                                                                  \
    LONGER(type, memmove, memmove(data, source, sizeof source))
BY_ELEMENTS(char)
BY_ELEMENTS(wchar_t)
BY_ELEMENTS(int)
BY_ELEMENTS(int64_t)
BY_ELEMENTS(pair)

/* CWE 122: strings of 99 characters into 50. */
#define STRING(type, how, statement)                                                                                           \
    static void string_##type##_##how(void)                                                                                    \
    {                                                                                                                          \
        type source[100];                                                                                                      \
        for (int i = 0; i < 99; i++)                                                                                           \
            source[i] = 'C';                                                                                                   \
        source[99] = 0;                                                                                                        \
        type *data = of((good ? 100 : 50) * sizeof *data);                                                                     \
        data[0] = 0;                                                                                                           \
        statement;                                                                                                             \
        free(data);                                                                                                            \
    }
STRING(char, cpy, strcpy(data, source))
STRING(char, cat, strcat(data, source))
STRING(char, ncpy, strncpy(data, source, 99))
STRING(char, ncat, strncat(data, source, 99))
STRING(char, stpcpy, stpcpy(data, source))
STRING(char, snprintf, snprintf(data, 100, "%s", source))
STRING(char, sprintf, sprintf(data, "%s", source))
STRING(char, memset, memset(data, 1, 100))
STRING(char, memcpy_chk, __memcpy_chk(data, source, 100, -1))
STRING(char, strcpy_chk, __strcpy_chk(data, source, -1))
STRING(wchar_t, cpy, wcscpy(data, source))
STRING(wchar_t, cat, wcscat(data, source))
STRING(wchar_t, ncpy, wcsncpy(data, source, 99))
STRING(wchar_t, ncat, wcsncat(data, source, 99))
STRING(wchar_t, snprintf, swprintf(data, 100, L"%ls", source))
STRING(wchar_t, memset, wmemset(data, 1, 100))
STRING(wchar_t, memcpy, wmemcpy(data, source, 100))

/* CWE 193 and 131: one character too few, for the end of the string; too few bytes for the elements. */
#define SHORT_BY_ONE(type, how, text, statement)                                                                               \
    static void by_one_##type##_##how(void)                                                                                    \
    {                                                                                                                          \
        const type source[] = text;                                                                                            \
        type *data = of((good ? 11 : 10) * sizeof *data);                                                                      \
        statement;                                                                                                             \
        free(data);                                                                                                            \
    }
SHORT_BY_ONE(char, cpy, "AAAAAAAAAA", strcpy(data, source))
SHORT_BY_ONE(char, loop, "AAAAAAAAAA", for (size_t i = 0; i < 11; i++) data[i] = source[i])
SHORT_BY_ONE(char, memcpy, "AAAAAAAAAA", memcpy(data, source, 11))
SHORT_BY_ONE(char, ncpy, "AAAAAAAAAA", strncpy(data, source, 11))
SHORT_BY_ONE(wchar_t, cpy, L"AAAAAAAAAA", wcscpy(data, source))
SHORT_BY_ONE(wchar_t, loop, L"AAAAAAAAAA", for (size_t i = 0; i < 11; i++) data[i] = source[i])
SHORT_BY_ONE(wchar_t, memmove, L"AAAAAAAAAA", memmove(data, source, 11 * sizeof *data))

static void elements_as_bytes(void)
{
    int source[10] = {0};
    int *data = of(good ? 10 * sizeof *data : 10);
    for (int i = 0; i < 10; i++)
        data[i] = source[i];
    free(data);
}

static void wide_as_narrow(void) /* CWE 135: the length of one kind of string for the other */
{
    const wchar_t *text = L"wide text";
    size_t bytes = good ? (wcslen(text) + 1) * sizeof *text : strlen((const char *)text) + 1;
    wchar_t *data = calloc(1, bytes);
    wcscpy(data, text);
    free(data);
}

static void index_behind(void) /* CWE 129 */
{
    int *data = of(10 * sizeof *data);
    data[good ? 9 : 10] = 1;
    free(data);
}

static void grown_too_little(void)
{
    char *data = realloc(of(10), 16);
    data[good ? 15 : 16] = 1;
    free(data);
}

static void copy_of_text(void)
{
    char *data = strdup("sixteen letters");
    data[good ? 15 : 16] = 1;
    free(data);
}

/* CWE 122 by calls that fill buffers. */
static void by_read(void)
{
    char *data = of(20);
    int file = open("/dev/zero", O_RDONLY);
    sink = read(file, data, good ? 20 : 21);
    close(file);
    free(data);
}
static void by_read_chk(void)
{
    char *data = of(20);
    int file = open("/dev/zero", O_RDONLY);
    sink = __read_chk(file, data, good ? 20 : 21, -1);
    close(file);
    free(data);
}
static void by_readv(void)
{
    struct iovec list[2] = {{of(8), 8}, {of(16), good ? 16 : 24}};
    int file = open("/dev/zero", O_RDONLY);
    sink = readv(file, list, 2);
    close(file);
    free(list[0].iov_base);
    free(list[1].iov_base);
}
static void socket_of(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || write(pair[1], "0123456789", 10) != 10)
        abort();
}
static void by_recv(void)
{
    int ends[2];
    char *data = of(8);
    socket_of(ends);
    sink = recv(ends[0], data, good ? 8 : 10, 0);
    free(data);
}
static void by_recvfrom(void)
{
    int ends[2];
    char *data = of(8);
    socket_of(ends);
    sink = recvfrom(ends[0], data, good ? 8 : 10, 0, NULL, NULL);
    free(data);
}
static void by_recvmsg(void)
{
    int ends[2];
    struct iovec part = {of(8), good ? 8 : 10};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    socket_of(ends);
    sink = recvmsg(ends[0], &message, 0);
    free(part.iov_base);
}
static void by_fgets(void)
{
    char *data = of(6);
    FILE *file = fmemopen("a line of text\n", 15, "r");
    sink = fgets(data, good ? 6 : 14, file) != NULL;
    fclose(file);
    free(data);
}
static void by_fread(void)
{
    char *data = of(6);
    FILE *file = fmemopen("a line of text\n", 15, "r");
    sink = fread(data, 1, good ? 6 : 14, file);
    fclose(file);
    free(data);
}
static void by_getline(void)
{
    char *data = of(4);
    size_t bytes = good ? 4 : 40;
    FILE *file = fmemopen("a line of text\n", 15, "r");
    sink = getline(&data, &bytes, file);
    fclose(file);
    free(data);
}
static void by_scanf(void)
{
    char *data = of(good ? 40 : 4);
    sink = sscanf("twenty-six-letters-or-more", "%s", data);
    free(data);
}
static void by_getcwd(void)
{
    char *data = of(1);
    sink = getcwd(data, good ? 1 : 4096) != NULL;
    free(data);
}

/* CWE 124 and 127: before the begin, by a pointer that is too low. */
#define BEFORE(type, way, how, statement)                                                                                      \
    static void before_##way##_##type##_##how(void)                                                                            \
    {                                                                                                                          \
        type other[100];                                                                                                       \
        for (int i = 0; i < 99; i++)                                                                                           \
            other[i] = 'C';                                                                                                    \
        other[99] = 0;                                                                                                         \
        type *object = of(100 * sizeof *object);                                                                               \
        memcpy(object, other, sizeof other);                                                                                   \
        type *data = good ? object : object - 8;                                                                               \
        statement;                                                                                                             \
        sink = other[50] + object[50];                                                                                         \
    }
BEFORE(char, write, loop, for (int i = 0; i < 90; i++) data[i] = other[i])
BEFORE(char, write, memcpy, memcpy(data, other, 90))
BEFORE(char, write, memmove, memmove(data, other, 90))
BEFORE(char, write, cpy, strcpy(data, other))
BEFORE(char, write, ncpy, strncpy(data, other, 99))
BEFORE(char, write, zero, data[0] = 0)
BEFORE(wchar_t, write, loop, for (int i = 0; i < 90; i++) data[i] = other[i])
BEFORE(wchar_t, write, memcpy, memcpy(data, other, 90))
BEFORE(wchar_t, write, memmove, memmove(data, other, 90))
BEFORE(wchar_t, write, cpy, wcscpy(data, other))
BEFORE(wchar_t, write, ncpy, wcsncpy(data, other, 99))
BEFORE(char, read, loop, for (int i = 0; i < 90; i++) other[i] = data[i])
BEFORE(char, read, print, fprintf(nowhere, "%.20s\n", data))
BEFORE(char, read, puts, fputs(data, nowhere))
BEFORE(char, read, memcpy, memcpy(other, data, 90))
BEFORE(char, read, memmove, memmove(other, data, 90))
BEFORE(char, read, cpy, data[50] = 0; strcpy(other, data))
BEFORE(char, read, ncpy, strncpy(other, data, 99))
BEFORE(char, read, write, sink = write(fileno(nowhere), data, 90))
BEFORE(wchar_t, read, loop, for (int i = 0; i < 90; i++) other[i] = data[i])
BEFORE(wchar_t, read, memcpy, memcpy(other, data, 90 * sizeof *data))
BEFORE(wchar_t, read, memmove, memmove(other, data, 90 * sizeof *data))
BEFORE(wchar_t, read, cpy, data[50] = 0; wcscpy(other, data))
BEFORE(wchar_t, read, ncpy, wcsncpy(other, data, 99))
static void index_before_write(void)
{
    int *data = of(10 * sizeof *data);
    data[good ? 0 : -5] = 1;
    free(data);
}
static void index_before_read(void)
{
    int *data = calloc(10, sizeof *data);
    sink = data[good ? 0 : -1];
    free(data);
}

/* CWE 126: more is read than there is. */
#define BEHIND(type, how, statement)                                                                                           \
    static void behind_##type##_##how(void)                                                                                    \
    {                                                                                                                          \
        type other[100] = {0};                                                                                                 \
        size_t count = good ? 100 : 50;                                                                                        \
        type *data = of(count * sizeof *data);                                                                                 \
        for (size_t i = 0; i < count - 1; i++)                                                                                 \
            data[i] = 'A';                                                                                                     \
        data[count - 1] = good ? 0 : 'A';                                                                                      \
        statement;                                                                                                             \
        sink = other[20];                                                                                                      \
        free(data);                                                                                                            \
    }
BEHIND(char, loop, for (int i = 0; i < 100; i++) other[i] = data[i])
BEHIND(char, memcpy, memcpy(other, data, sizeof other))
BEHIND(char, memmove, memmove(other, data, sizeof other))
BEHIND(char, len, sink = strlen(data))
BEHIND(char, print, fprintf(nowhere, "%s\n", data))
BEHIND(char, chr, sink = memchr(data, 0x5a, 100) != NULL)
BEHIND(char, write, sink = write(fileno(nowhere), data, 100))
BEHIND(char, fwrite, sink = fwrite(data, 1, 100, nowhere))
BEHIND(wchar_t, loop, for (int i = 0; i < 100; i++) other[i] = data[i])
BEHIND(wchar_t, memcpy, memcpy(other, data, sizeof other))
BEHIND(wchar_t, len, sink = wcslen(data))
static void index_behind_read(void)
{
    int *data = calloc(10, sizeof *data);
    sink = data[good ? 9 : 10];
    free(data);
}

/* CWE 415: given back twice. */
#define TWICE(type)                                                                                                            \
    static void twice_##type(void)                                                                                             \
    {                                                                                                                          \
        type *data = of(100 * sizeof *data);                                                                                   \
        free(data);                                                                                                            \
        if (!good)                                                                                                             \
            free(data);                                                                                                        \
    }
TWICE(char) TWICE(wchar_t) TWICE(int) TWICE(int64_t) TWICE(pair)
static void twice_after_realloc(void)
{
    char *data = of(10), *grown = realloc(data, 1000);
    free(good ? grown : data);
}
static void twice_by_realloc(void)
{
    char *data = of(10);
    if (!good)
        free(data);
    free(realloc(data, 20));
}
static void twice_much_later(void)
{
    char *data = of(10);
    free(data);
    for (int i = 0; i < 2000; i++)
        free(of(10));
    if (!good)
        free(data);
}

/* CWE 416: used after it was given back. */
#define AFTER(type)                                                                                                            \
    static void after_##type(void)                                                                                             \
    {                                                                                                                          \
        type *data = of(100 * sizeof *data);                                                                                   \
        memset(data, 'A', 100 * sizeof *data);                                                                                 \
        if (good)                                                                                                              \
            sink = *(char *)&data[3];                                                                                          \
        free(data);                                                                                                            \
        if (!good)                                                                                                             \
            sink = *(char *)&data[3];                                                                                          \
    }
AFTER(char) AFTER(wchar_t) AFTER(int) AFTER(int64_t) AFTER(pair)
static char *returned(void)
{
    char *data = strdup("a text");
    if (!good)
        free(data);
    return data;
}
static void after_return(void)
{
    fprintf(nowhere, "%s\n", returned());
}
static void after_write(void)
{
    char *data = of(100);
    free(data);
    data = good ? of(100) : data;
    data[0] = 1;
}
static void after_copy(void)
{
    char *data = strdup("a text"), *other = of(7);
    if (good)
        strcpy(other, data);
    free(data);
    if (!good)
        strcpy(other, data);
}
static void after_list(void)
{
    struct node {
        struct node *next;
    } *list = NULL;
    for (int i = 0; i < 3; i++) {
        struct node *node = of(sizeof *node);
        node->next = list;
        list = node;
    }
    while (list) {
        struct node *next = list->next;
        free(list);
        list = good ? next : list->next;
    }
}
static void after_moved(void)
{
    char *data = strdup("a text"), *grown = realloc(data, 1 << 16);
    sink = good ? grown[0] : data[0];
    free(grown);
}
static void after_by_call(void)
{
    char *data = strdup("a text");
    free(data);
    data = good ? "another" : data;
    sink = write(fileno(nowhere), data, 6);
}

/* CWE 590: what is not on the heap. */
static char in_data[100];
static void not_static(void)
{
    free(good ? of(10) : in_data);
}
static void not_local(void)
{
    char local[100];
    free(good ? of(10) : local);
}
static void not_alloca(void)
{
    char *data = alloca(100);
    free(good ? of(10) : data);
}
static void not_literal(void)
{
    free(good ? of(10) : "literal");
}
static void not_mapped(void)
{
    char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(good ? of(10) : data + 64);
}
static void not_realloc(void)
{
    free(realloc(good ? of(10) : in_data, 200));
}

/* CWE 761: not at its begin. */
static void middle_char(void)
{
    char *data = strdup("Fixed String"), *at = data;
    while (*at != 'S')
        at++;
    free(good ? data : at);
}
static void middle_wchar(void)
{
    wchar_t *data = wcsdup(L"Fixed String"), *at = data;
    for (; *at; at++)
        if (*at == L'S')
            break;
    free(good ? data : at);
}
static void middle_struct(void)
{
    pair *data = of(2 * sizeof *data);
    free(good ? &data[0].one : &data[0].two);
}
static void middle_end(void)
{
    char *data = of(32);
    free(good ? data : data + 32);
}
static void middle_before(void)
{
    char *data = of(32);
    free(good ? data : data - 1);
}

static void far_away(void) /* CWE 122: so far that nothing is there */
{
    char *data = of(10);
    data[good ? 0 : 1l << 46] = 1;
    free(data);
}

#define CASE(name, kind, is_in_one) {#name, name, kind, is_in_one}
#define OVER(name) CASE(name, "heap-buffer-overflow", 1)
#define UNDER(name) CASE(name, "heap-buffer-underflow", 1)
#define UNDER_IN_TWO(name) CASE(name, "heap-buffer-underflow", 0)
#define USED(name) CASE(name, "heap-use-after-free", 1)
#define AGAIN(name) CASE(name, "double-free", 1)
#define INVALID(name) CASE(name, "invalid-free", 1)
#define ELEMENTS(type) OVER(longer_##type##_loop), OVER(longer_##type##_backwards), OVER(longer_##type##_memcpy), OVER(longer_##type##_memmove)

static const struct {
    const char *name;
    void (*run)(void);
    const char *kind;
    int is_in_one;
} all[] = {
    ELEMENTS(char), ELEMENTS(wchar_t), ELEMENTS(int), ELEMENTS(int64_t), ELEMENTS(pair),
    OVER(string_char_cpy), OVER(string_char_cat), OVER(string_char_ncpy), OVER(string_char_ncat), OVER(string_char_stpcpy),
    OVER(string_char_snprintf), OVER(string_char_sprintf), OVER(string_char_memset), OVER(string_char_memcpy_chk),
    OVER(string_char_strcpy_chk), OVER(string_wchar_t_cpy), OVER(string_wchar_t_cat), OVER(string_wchar_t_ncpy),
    OVER(string_wchar_t_ncat), OVER(string_wchar_t_snprintf), OVER(string_wchar_t_memset), OVER(string_wchar_t_memcpy),
    OVER(by_one_char_cpy), OVER(by_one_char_loop), OVER(by_one_char_memcpy), OVER(by_one_char_ncpy), OVER(by_one_wchar_t_cpy),
    OVER(by_one_wchar_t_loop), OVER(by_one_wchar_t_memmove), OVER(elements_as_bytes), OVER(wide_as_narrow), OVER(index_behind),
    OVER(grown_too_little), OVER(copy_of_text), OVER(by_read), OVER(by_read_chk), OVER(by_readv), OVER(by_recv),
    OVER(by_recvfrom), OVER(by_recvmsg), OVER(by_fgets), OVER(by_fread), OVER(by_getline), OVER(by_scanf), OVER(by_getcwd),
    UNDER(before_write_char_loop), UNDER(before_write_char_memcpy), UNDER(before_write_char_memmove),
    UNDER(before_write_char_cpy), UNDER(before_write_char_ncpy), UNDER(before_write_char_zero),
    UNDER(before_write_wchar_t_loop), UNDER(before_write_wchar_t_memcpy), UNDER(before_write_wchar_t_memmove),
    UNDER(before_write_wchar_t_cpy), UNDER(before_write_wchar_t_ncpy), UNDER(index_before_write),
    UNDER_IN_TWO(before_read_char_loop), UNDER_IN_TWO(before_read_char_print), UNDER(before_read_char_puts),
    UNDER(before_read_char_memcpy), UNDER(before_read_char_memmove), UNDER(before_read_char_cpy), UNDER(before_read_char_ncpy),
    UNDER(before_read_char_write), UNDER_IN_TWO(before_read_wchar_t_loop), UNDER(before_read_wchar_t_memcpy),
    UNDER(before_read_wchar_t_memmove), UNDER(before_read_wchar_t_cpy), UNDER(before_read_wchar_t_ncpy),
    UNDER_IN_TWO(index_before_read),
    OVER(behind_char_loop), OVER(behind_char_memcpy), OVER(behind_char_memmove), OVER(behind_char_len), OVER(behind_char_print),
    OVER(behind_char_chr), OVER(behind_char_write), OVER(behind_char_fwrite), OVER(behind_wchar_t_loop),
    OVER(behind_wchar_t_memcpy), OVER(behind_wchar_t_len), OVER(index_behind_read),
    AGAIN(twice_char), AGAIN(twice_wchar_t), AGAIN(twice_int), AGAIN(twice_int64_t), AGAIN(twice_pair),
    AGAIN(twice_after_realloc), AGAIN(twice_by_realloc), AGAIN(twice_much_later),
    USED(after_char), USED(after_wchar_t), USED(after_int), USED(after_int64_t), USED(after_pair), USED(after_return),
    USED(after_write), USED(after_copy), USED(after_list), USED(after_moved), USED(after_by_call),
    INVALID(not_static), INVALID(not_local), INVALID(not_alloca), INVALID(not_literal), INVALID(not_mapped), INVALID(not_realloc),
    INVALID(middle_char), INVALID(middle_wchar), INVALID(middle_struct), INVALID(middle_end), INVALID(middle_before),
    CASE(far_away, "invalid-access", 1),
};

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    nowhere = fopen("/dev/null", "w");
    good = !strcmp(what, "good");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!strcmp(what, "list"))
            printf("%s %s %d\n", all[i].name, all[i].kind, all[i].is_in_one);
        else if (good)
            all[i].run();
        else if (fork() == 0) {
            all[i].run();
            exit(0);
        } else
            wait(NULL);
    }
    return 0;
}

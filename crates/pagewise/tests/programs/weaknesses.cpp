/* The same in C++ (CWE 122, 124, 126, 127, 415, 416, 590, 762): operators, classes with and without destructors, containers.
 * usage: as of weaknesses.c */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <memory>
#include <new>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static bool good;
static volatile long sink;

struct Plain {
    int one, two;
};
struct Owner {
    char *text;
    explicit Owner(const char *from) : text(new char[strlen(from) + 1]) { strcpy(text, from); }
    Owner(const Owner &other) : text(good ? strcpy(new char[strlen(other.text) + 1], other.text) : other.text) {}
    Owner &operator=(const Owner &other)
    {
        if (good && this == &other)
            return *this;
        delete[] text;
        text = new char[strlen(other.text) + 1];
        strcpy(text, other.text);
        return *this;
    }
    ~Owner() { delete[] text; }
};
struct Base {
    virtual ~Base() {}
    virtual int value() { return 1; }
};
struct Derived : Base {
    int more[10] = {};
    int value() override { return more[3]; }
};

/* CWE 762 */
#define MISMATCH(name, type, make, right, wrong)                                                                               \
    static void name()                                                                                                         \
    {                                                                                                                          \
        type *data = make;                                                                                                     \
        if (good)                                                                                                              \
            right;                                                                                                             \
        else                                                                                                                   \
            wrong;                                                                                                             \
    }
MISMATCH(new_free, int, new int(1), delete data, free(data))
MISMATCH(new_class_free, Plain, new Plain, delete data, free(data))
MISMATCH(new_array_free, char, new char[100], delete[] data, free(data))
MISMATCH(new_array_delete, int64_t, new int64_t[100], delete[] data, delete data)
MISMATCH(new_delete_array, Plain, new Plain, delete data, delete[] data)
MISMATCH(malloc_delete, int, (int *)malloc(4), free(data), delete data)
MISMATCH(malloc_delete_array, wchar_t, (wchar_t *)malloc(400), free(data), delete[] data)
MISMATCH(calloc_delete, char, (char *)calloc(100, 1), free(data), delete data)
MISMATCH(calloc_delete_array, Plain, (Plain *)calloc(10, sizeof(Plain)), free(data), delete[] data)
MISMATCH(realloc_delete, char, (char *)realloc(NULL, 100), free(data), delete data)
MISMATCH(strdup_delete, char, strdup("text"), free(data), delete data)
MISMATCH(strdup_delete_array, char, strdup("text"), free(data), delete[] data)
MISMATCH(wcsdup_delete, wchar_t, wcsdup(L"text"), free(data), delete data)

/* CWE 122, 124, 126, 127 of new[] */
#define BUFFER(name, type, count, statement)                                                                                   \
    static void name()                                                                                                         \
    {                                                                                                                          \
        type other[100] = {};                                                                                                  \
        type *data = new type[good ? 100 : count]();                                                                           \
        type *before = good ? data : data - 8;                                                                                 \
        statement;                                                                                                             \
        sink = sizeof other[0] + (before != nullptr);                                                                          \
        delete[] data;                                                                                                         \
    }
BUFFER(new_loop, int64_t, 50, for (int i = 0; i < 100; i++) data[i] = other[i])
BUFFER(new_memcpy, Plain, 50, memcpy(data, other, sizeof other))
BUFFER(new_ncpy, char, 50, strncpy(data, other, 100))
BUFFER(new_wide_loop, wchar_t, 50, for (int i = 0; i < 100; i++) data[i] = other[i])
BUFFER(new_read, wchar_t, 50, memcpy(other, data, sizeof other))
BUFFER(new_read_loop, char, 50, for (int i = 0; i < 100; i++) other[i] = data[i])
BUFFER(new_before_write, char, 100, memset(before, 'A', 90))
BUFFER(new_before_loop, wchar_t, 100, for (int i = 0; i < 90; i++) before[i] = 'A')
BUFFER(new_before_read, char, 100, memcpy(other, before, 90))
BUFFER(new_before_read_loop, wchar_t, 100, for (int i = 0; i < 90; i++) other[i] = before[i])
static void vector_behind()
{
    std::vector<int> numbers(10);
    numbers.data()[good ? 9 : 10] = 1;
}
static void string_behind()
{
    std::string text(31, 'x');
    text[good ? 30 : 40] = 'y';
}
static void class_too_small() /* a base's memory for a derived object */
{
    void *place = operator new(good ? sizeof(Derived) : sizeof(Base));
    (new (place) Derived)->~Derived();
    operator delete(place);
}

/* CWE 415 */
static void delete_twice()
{
    Plain *data = new Plain;
    delete data;
    if (!good)
        delete data;
}
static void delete_array_twice()
{
    wchar_t *data = new wchar_t[100];
    delete[] data;
    if (!good)
        delete[] data;
}
static void copy_without_copying()
{
    Owner first("text");
    Owner second(first);
}

/* CWE 416 */
static void used_after_delete()
{
    Plain *data = new Plain{1, 2};
    if (good)
        sink = data->one;
    delete data;
    if (!good)
        sink = data->one;
}
static void used_after_delete_array()
{
    char *data = new char[100]();
    char *kept = good ? new char[100]() : data;
    delete[] data;
    sink = kept[50];
}
static void virtual_after_delete()
{
    Base *data = new Derived;
    if (good)
        sink = data->value();
    delete data;
    if (!good)
        sink = data->value();
}
static void assigned_to_itself()
{
    Owner owner("text"), &same = owner;
    owner = same;
}
static const char *text_of(const std::string &text) { return text.c_str(); }
static void text_of_a_temporary()
{
    const char *text = text_of(std::string(40, 'x'));
    std::string kept(40, 'x');
    sink = good ? kept[0] : text[0];
}
static void iterator_after_growth()
{
    std::vector<long> numbers(10, 1);
    long *first = &numbers[0];
    numbers.resize(1000);
    sink = good ? numbers[0] : *first;
}

/* CWE 590 */
static void delete_local()
{
    int local = 1;
    int *data = good ? new int(1) : &local;
    delete data;
}
static void delete_static_array()
{
    static char room[100];
    char *data = good ? new char[100] : room;
    delete[] data;
}
static void delete_placed()
{
    alignas(Plain) char room[sizeof(Plain)];
    Plain *data = new (room) Plain;
    if (good)
        data = new Plain;
    delete data;
}
static void delete_middle()
{
    char *data = new char[100];
    delete[] (good ? data : data + 3);
}

#define CASE(name, kind, is_in_one) {#name, name, kind, is_in_one}
static const struct {
    const char *name;
    void (*run)();
    const char *kind;
    int is_in_one;
} all[] = {
#define WRONG(name) CASE(name, "alloc-dealloc-mismatch", 1)
    WRONG(new_free), WRONG(new_class_free), WRONG(new_array_free), WRONG(new_array_delete), WRONG(new_delete_array),
    WRONG(malloc_delete), WRONG(malloc_delete_array), WRONG(calloc_delete), WRONG(calloc_delete_array), WRONG(realloc_delete),
    WRONG(strdup_delete), WRONG(strdup_delete_array), WRONG(wcsdup_delete),
#define OVER(name) CASE(name, "heap-buffer-overflow", 1)
    OVER(new_loop), OVER(new_memcpy), OVER(new_ncpy), OVER(new_wide_loop), OVER(new_read), OVER(new_read_loop),
    OVER(vector_behind), OVER(string_behind), OVER(class_too_small),
#define UNDER(name, is_in_one) CASE(name, "heap-buffer-underflow", is_in_one)
    UNDER(new_before_write, 1), UNDER(new_before_loop, 1), UNDER(new_before_read, 1), UNDER(new_before_read_loop, 0),
    CASE(delete_twice, "double-free", 1), CASE(delete_array_twice, "double-free", 1),
    CASE(copy_without_copying, "double-free", 1),
#define USED(name) CASE(name, "heap-use-after-free", 1)
    USED(used_after_delete), USED(used_after_delete_array), USED(virtual_after_delete), USED(assigned_to_itself),
    USED(text_of_a_temporary), USED(iterator_after_growth),
#define INVALID(name) CASE(name, "invalid-free", 1)
    INVALID(delete_local), INVALID(delete_static_array), INVALID(delete_placed), INVALID(delete_middle),
};

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    good = !strcmp(what, "good");
    for (const auto &one : all) {
        if (!strcmp(what, "list"))
            printf("%s %s %d\n", one.name, one.kind, one.is_in_one);
        else if (good)
            one.run();
        else if (fork() == 0) {
            one.run();
            exit(0);
        } else
            wait(nullptr);
    }
    return 0;
}
